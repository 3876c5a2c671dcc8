"""Activation functions, as methods."""

from __future__ import annotations

from ..functions import activation as functions
from ..ops import activation as ops
from .writing import unary_


class ActivationMethods:
    """Activation functions, and their forms that write in place."""

    __slots__ = ()

    tanh = functions.tanh
    sigmoid = functions.sigmoid
    relu = functions.relu
    erf = functions.erf
    softmax = functions.softmax
    log_softmax = functions.log_softmax

    tanh_ = unary_(ops.tanh)
    sigmoid_ = unary_(ops.sigmoid)
    relu_ = unary_(ops.relu)
