"""Complex numbers, made of real ones: differences are taken of real inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from stowgrad.autograd.ops import cast, complex, elementwise, polar

from .case import Case, apart, positive, rand


def _made(x: Any, y: Any) -> Any:
    """``x + iy``."""
    z = cast.to_dtype(y, np.dtype(np.complex128))
    return elementwise.add(complex.rotate(z, 1j), x)


def _parts(z: Any) -> tuple[Any, Any]:
    return complex.real(z), complex.imag(z)


CASES = [
    Case("real", lambda x, y: complex.real(_made(x, y)), (rand(2, 3), rand(2, 3))),
    Case("imag", lambda x, y: complex.imag(_made(x, y)), (rand(2, 3), rand(2, 3))),
    Case("conj", lambda x, y: complex.imag(complex.conj(_made(x, y))), (rand(2, 3), rand(2, 3))),
    Case("rotate", lambda x, y: complex.real(complex.rotate(_made(x, y), -1j)), (rand(2, 3), rand(2, 3))),
    Case("complex", lambda x, y: _parts(complex.complex_(x, y)), (rand(2, 3), rand(2, 3))),
    Case("complex", lambda x, y: _parts(complex.complex_(x, y)), (rand(2, 1), rand(3)), "broadcast"),
    Case("view_as_real", lambda x, y: complex.view_as_real(_made(x, y)), (rand(2, 3), rand(2, 3))),
    Case("view_as_complex", lambda x: _parts(complex.view_as_complex(x)), (rand(2, 3, 2),)),
    Case(
        "view_as_real",
        lambda x, y: complex.view_as_real(_made(x, y).t()).transpose(0, 2),
        (rand(2, 3), rand(2, 3)),
        "transposed",
    ),
    Case("polar", lambda x, y: _parts(polar.polar(x, y)), (apart(2, 3), rand(2, 3))),
    Case("polar", lambda x, y: _parts(polar.polar(x, y)), (apart(2, 1), rand(3)), "broadcast"),
    Case("angle", lambda x, y: polar.angle(_made(x, y)), (positive(2, 3), rand(2, 3))),
    Case("angle_of_real", lambda x: elementwise.mul(polar.angle_of_real(x), x), (apart(2, 3),)),
]
