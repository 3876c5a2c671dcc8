"""The modules themselves, a file a family."""

from __future__ import annotations

from .activation import GELU, ReLU
from .container import ModuleDict, ModuleList, Sequential
from .dropout import Dropout
from .linear import Identity, Linear
from .loss import CrossEntropyLoss, MSELoss
from .module import Module
from .normalization import LayerNorm
from .sparse import Embedding

__all__ = [
    "GELU",
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
    "ReLU",
    "Sequential",
]
