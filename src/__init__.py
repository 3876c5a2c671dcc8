"""stowgrad: eager autograd over NumPy and CuPy, built around what a graph keeps for backward."""

from __future__ import annotations

from importlib import metadata as _metadata

import numpy as _np

from . import autograd, checkpoint, kernels, memory, nn, offload, optim, profiler, saved_tensors, utils
from .autograd import (
    Tensor,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .autograd import functions as _functions
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
from .autograd.functions import *
from .autograd.ops.promotion import bfloat16
from .autograd.random import Generator, get_rng_state, manual_seed, set_rng_state
from .kernels import get_num_threads, set_num_threads
from .memory import Device as device  # noqa: N813  # PyTorch's name

dtype = _np.dtype
float16 = half = _np.dtype(_np.float16)
float32 = _np.dtype(_np.float32)
float64 = double = _np.dtype(_np.float64)
int8 = _np.dtype(_np.int8)
int16 = short = _np.dtype(_np.int16)
int32 = _np.dtype(_np.int32)
int64 = long = _np.dtype(_np.int64)
uint8 = _np.dtype(_np.uint8)
bool = _np.dtype(_np.bool_)

try:
    __version__ = _metadata.version("stowgrad")
except _metadata.PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0+unknown"

__all__ = [
    "Generator",
    "Tensor",
    "__version__",
    "arange",
    "as_tensor",
    "autograd",
    "bfloat16",
    "bool",
    "checkpoint",
    "device",
    "double",
    "dtype",
    "empty",
    "empty_like",
    "enable_grad",
    "float16",
    "float32",
    "float64",
    "from_numpy",
    "full",
    "get_num_threads",
    "get_rng_state",
    "half",
    "inference_mode",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "kernels",
    "long",
    "manual_seed",
    "memory",
    "nn",
    "no_grad",
    "offload",
    "ones",
    "ones_like",
    "optim",
    "profiler",
    "rand",
    "randint",
    "randn",
    "randperm",
    "saved_tensors",
    "set_grad_enabled",
    "set_num_threads",
    "set_rng_state",
    "short",
    "tensor",
    "uint8",
    "utils",
    "zeros",
    "zeros_like",
]
__all__ += _functions.__all__
__all__.sort()
