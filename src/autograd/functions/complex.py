"""Parts of complex numbers, as functions."""

from __future__ import annotations

from typing import Any

from ..ops import complex as ops

__all__ = ["conj", "imag", "real"]


def conj(input: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return ops.conj(input)


def real(input: Any) -> Any:
    """The real part: a view; a real tensor itself."""
    return ops.real(input)


def imag(input: Any) -> Any:
    """The imaginary part: a view.

    Raises:
        RuntimeError: for a real tensor.
    """
    return ops.imag(input)
