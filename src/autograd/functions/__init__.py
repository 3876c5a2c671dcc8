"""Ops as functions of the top level, a file a family; most are methods of tensors, too."""

from __future__ import annotations

from inspect import isfunction as _isfunction

from .activation import *
from .complex import *
from .elementwise import *
from .index import *
from .linalg import *
from .reduce import *
from .shape import *

__all__ = sorted(name for name, value in globals().items() if _isfunction(value) and not name.startswith("_"))
