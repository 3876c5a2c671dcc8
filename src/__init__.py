"""stowgrad: eager autograd over NumPy and CuPy, built around what a graph keeps for backward."""

from __future__ import annotations

from importlib import metadata as _metadata

import numpy as _np

from . import autograd, kernels, memory, saved_tensors
from .autograd import Tensor, enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .autograd.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    from_numpy,
    full,
    ones,
    ones_like,
    rand,
    randint,
    randn,
    randperm,
    tensor,
    zeros,
    zeros_like,
)
