"""What a tensor can do, as methods, a file a family: most are the functions of `stowgrad.autograd.functions`."""

from __future__ import annotations

from .activation import ActivationMethods
from .comparison import ComparisonMethods
from .complex import ComplexMethods
from .creation import CreationMethods
from .elementary import ElementaryMethods
from .elementwise import ElementwiseMethods
from .index import IndexMethods
from .linalg import LinalgMethods
from .looks import InPlaceViewMethods
from .operators import Operators
from .queries import QueryMethods
from .random import RandomMethods
from .reduce import OrderMethods, ReduceMethods
from .shape import ShapeMethods
from .special import SpecialMethods
from .spectrum import SpectrumMethods

__all__ = [
    "ActivationMethods",
    "ComparisonMethods",
    "ComplexMethods",
    "CreationMethods",
    "ElementaryMethods",
    "ElementwiseMethods",
    "InPlaceViewMethods",
    "IndexMethods",
    "LinalgMethods",
    "Operators",
    "OrderMethods",
    "QueryMethods",
    "RandomMethods",
    "ReduceMethods",
    "ShapeMethods",
    "SpecialMethods",
    "SpectrumMethods",
]
