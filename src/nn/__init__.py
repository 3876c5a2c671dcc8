"""Modules and functions of neural networks."""

from __future__ import annotations

from . import functional, init, modules, utils
from .modules import *
from .parameter import Buffer, Parameter
from .uninitialized import UninitializedBuffer, UninitializedParameter

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "functional",
    "init",
    "modules",
    "utils",
]
__all__ += modules.__all__
__all__.sort()
