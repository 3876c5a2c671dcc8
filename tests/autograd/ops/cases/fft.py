"""Fourier transforms, of real signals; of spectra both parts are results."""

from __future__ import annotations

from typing import Any

from stowgrad.autograd.ops import complex, fft

from .case import Case, rand

NORMS = ("none", "by_root_n", "by_n")


def _parts(z: Any) -> tuple[Any, Any]:
    return complex.real(z), complex.imag(z)


def _spectrum(x: Any) -> Any:
    """A complex tensor that depends on all elements of ``x``."""
    return fft.fft_c2c(x, (0,), (x.shape[0],), "none", False)


CASES = [
    case
    for norm in NORMS
    for case in (
        Case("fft_c2c", lambda x, n=norm: _parts(fft.fft_c2c(x, (1,), (4,), n, False)), (rand(3, 4),), f"real, {norm}"),
        Case(
            "fft_c2c",
            lambda x, n=norm: _parts(fft.fft_c2c(_spectrum(x), (0, 1), (3, 4), n, True)),
            (rand(3, 4),),
            f"complex, {norm}",
        ),
        Case("fft_r2c", lambda x, n=norm: _parts(fft.fft_r2c(x, (0, 1), (3, 4), n)), (rand(3, 4),), norm),
        Case("fft_c2r", lambda x, n=norm: fft.fft_c2r(_spectrum(x), 1, 6, n), (rand(3, 4),), norm),
    )
]
CASES += [
    Case("fft_c2c", lambda x: _parts(fft.fft_c2c(x, (1, 2), (6, 3), "none", False)), (rand(2, 4, 5),), "resized"),
    Case("fft_r2c", lambda x: _parts(fft.fft_r2c(x, (1, 2), (6, 3), "by_n")), (rand(2, 4, 5),), "resized"),
    Case("fft_r2c", lambda x: _parts(fft.fft_r2c(x, (1,), (7,), "by_n")), (rand(2, 4),), "filled up"),
    Case("fft_c2r", lambda x: fft.fft_c2r(_spectrum(x), 1, 3, "by_n"), (rand(3, 4),), "cut"),
    Case("fft_c2r", lambda x: fft.fft_c2r(_spectrum(x), 1, 9, "by_n"), (rand(3, 4),), "filled up"),
    Case("fft_middle", lambda x: _parts(fft.fft_middle(_spectrum(x), 1, 6, 2.0)), (rand(3, 4),), "even"),
    Case("fft_middle", lambda x: _parts(fft.fft_middle(_spectrum(x), 1, 5, 0.5)), (rand(2, 3),), "odd"),
]
