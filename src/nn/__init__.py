"""Modules and functions of neural networks."""

from __future__ import annotations

from . import functional, init, modules, utils
from .modules import (
    GELU,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Identity,
    LayerNorm,
    Linear,
    Module,
    ModuleDict,
    ModuleList,
    MSELoss,
    ReLU,
    Sequential,
)
from .parameter import Buffer, Parameter

__all__ = [
    "GELU",
    "Buffer",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Identity",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "Module",
    "ModuleDict",
    "ModuleList",
    "Parameter",
    "ReLU",
    "Sequential",
    "functional",
    "init",
    "modules",
    "utils",
]
