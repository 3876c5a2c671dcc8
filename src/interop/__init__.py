"""NumPy's functions on tensors: what each becomes, so that a NumPy program can be differentiated as it stands."""

from __future__ import annotations

from ..autograd.creation import from_dlpack
from ..autograd.protocols import use_protocols
from . import algebra, making, products, reducing, selecting, shaping
from .dispatching import FUNCTIONS, array_function
from .ufuncs import UFUNCS, array_ufunc

use_protocols(array_ufunc, array_function)

__all__ = [
    "FUNCTIONS",
    "UFUNCS",
    "algebra",
    "array_function",
    "array_ufunc",
    "from_dlpack",
    "making",
    "products",
    "reducing",
    "selecting",
    "shaping",
]
