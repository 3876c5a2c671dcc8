"""Activation functions and the norm of slices, as methods."""

from __future__ import annotations

from typing import Any

from ..functions import activation as functions
from ..functions import normalization
from ..ops import activation as ops
from .writing import unary_


class ActivationMethods:
    """Activation functions, and their forms that write in place."""

    __slots__ = ()

    tanh = functions.tanh
    sigmoid = functions.sigmoid
    relu = functions.relu
    erf = functions.erf
    hardshrink = functions.hardshrink
    prelu = functions.prelu
    renorm = normalization.renorm

    tanh_ = unary_(ops.tanh)
    sigmoid_ = unary_(ops.sigmoid)
    relu_ = unary_(ops.relu)

    def renorm_(self: Any, p: float, dim: int, maxnorm: float) -> Any:
        """Scale down slices whose norm is larger than ``maxnorm``, in place; returns the tensor."""
        return self.copy_(normalization.renorm(self.clone(), p, dim, maxnorm))
