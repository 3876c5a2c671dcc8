"""Complex numbers, made of real ones: differences are taken of real inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import cast, complex, elementwise

from .case import Case, rand


def _made(x: Any, y: Any) -> Any:
    """``x + iy``."""
    z = cast.to_dtype(y, np.dtype(np.complex128))
    return elementwise.add(complex.rotate(z, 1j), x)


CASES = [
    Case("real", lambda x, y: complex.real(_made(x, y)), (rand(2, 3), rand(2, 3))),
    Case("imag", lambda x, y: complex.imag(_made(x, y)), (rand(2, 3), rand(2, 3))),
    Case("conj", lambda x, y: complex.imag(complex.conj(_made(x, y))), (rand(2, 3), rand(2, 3))),
    Case("rotate", lambda x, y: complex.real(complex.rotate(_made(x, y), -1j)), (rand(2, 3), rand(2, 3))),
]
