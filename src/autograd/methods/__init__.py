"""What a tensor can do, as methods, a file a family: most are the functions of `stowgrad.autograd.functions`."""

from __future__ import annotations

from .activation import ActivationMethods
from .complex import ComplexMethods
from .elementwise import ElementwiseMethods
from .index import IndexMethods
from .linalg import LinalgMethods
from .operators import Operators
from .reduce import ReduceMethods
from .shape import ShapeMethods

__all__ = [
    "ActivationMethods",
    "ComplexMethods",
    "ElementwiseMethods",
    "IndexMethods",
    "LinalgMethods",
    "Operators",
    "ReduceMethods",
    "ShapeMethods",
]
