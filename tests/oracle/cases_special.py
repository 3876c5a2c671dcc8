"""Special functions that PyTorch has no samples of, or not under that name."""

from __future__ import annotations

from typing import Any

from .op_cases import FLOATS, Case, smooth


def _betaln(lib: Any, x: Any, y: Any) -> Any:
    """Its value only: PyTorch's second derivative of lgamma has ten digits."""
    x, y = x.detach(), y.detach()
    return lib.special.betaln(x, y) if lib.__name__ == "stowgrad" else x.lgamma() + y.lgamma() - (x + y).lgamma()


def _cbrt(lib: Any, x: Any) -> Any:
    return lib.special.cbrt(x) if lib.__name__ == "stowgrad" else x ** (1 / 3)


CASES = [
    Case("special.gammainc", "two", lambda lib, x: lib.special.gammainc(x.detach(), x), (smooth(3, 4),), FLOATS),
    Case("special.gammaincc", "two", lambda lib, x: lib.special.gammaincc(x.detach(), x), (smooth(3, 4),), FLOATS),
    Case("special.betaln", "written with lgamma", _betaln, (smooth(3, 4), smooth(4)), FLOATS),
    Case("special.cbrt", "a power", _cbrt, (smooth(3, 4),), FLOATS),
]
