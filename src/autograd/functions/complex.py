"""Parts of complex numbers, and complex numbers of parts, as functions."""

from __future__ import annotations

import builtins
from typing import Any

from ..ops import complex as ops
from ..ops import polar as polar_ops
from ..ops.elementwise import eq
from ..ops.pointwise import zeros_like
from ..out import into
from ..queries import check_tensors as _check_tensors
from ..queries import dtype_of as _dtype_of

__all__ = [
    "angle",
    "complex",
    "conj",
    "conj_physical",
    "imag",
    "is_complex",
    "isreal",
    "polar",
    "real",
    "resolve_conj",
    "resolve_neg",
    "view_as_complex",
    "view_as_real",
]


def conj(input: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return ops.conj(input)


def conj_physical(input: Any, *, out: Any = None) -> Any:
    """The complex conjugate, like `conj`: no tensor is conjugated lazily here."""
    return ops.conj(input) if out is None else into(out, ops.conj, input)


def resolve_conj(input: Any) -> Any:
    """The tensor itself: none is conjugated lazily here."""
    return input


def resolve_neg(input: Any) -> Any:
    """The tensor itself: none is negated lazily here."""
    return input


def real(input: Any) -> Any:
    """The real part: a view; a real tensor itself."""
    return ops.real(input)


def imag(input: Any) -> Any:
    """The imaginary part: a view.

    Raises:
        RuntimeError: for a real tensor.
    """
    return ops.imag(input)


def angle(input: Any, *, out: Any = None) -> Any:
    """The angle of complex numbers, from -pi to pi; of real ones 0, or pi where they are negative.

    Its gradient at 0 is 0.
    """
    return polar_ops.angle(input) if out is None else into(out, polar_ops.angle, input)


def complex(real: Any, imag: Any, *, out: Any = None) -> Any:
    """Complex numbers of their parts: tensors of float32 or of float64.

    Raises:
        RuntimeError: for other dtypes, or two of them.

    >>> import stowgrad
    >>> stowgrad.complex(stowgrad.tensor([1.0, 2.0]), stowgrad.tensor([0.0, -1.0]))
    tensor([1.+0.j, 2.-1.j])
    """
    _check_tensors("complex", real=real, imag=imag)
    if out is not None:
        _check_out("complex", real, imag, out)
        return into(out, ops.complex_, real, imag)
    return ops.complex_(real, imag)


def polar(abs: Any, angle: Any, *, out: Any = None) -> Any:
    """Complex numbers of their absolute values and angles: tensors of float32 or of float64.

    Raises:
        RuntimeError: for other dtypes, or two of them.
    """
    _check_tensors("polar", abs=abs, angle=angle)
    if out is not None:
        _check_out("polar", abs, angle, out)
        return into(out, polar_ops.polar, abs, angle)
    return polar_ops.polar(abs, angle)


def view_as_real(input: Any) -> Any:
    """The two parts of complex numbers along a new last dimension: a view.

    Raises:
        RuntimeError: for a real tensor.
    """
    return ops.view_as_real(input)


def view_as_complex(input: Any) -> Any:
    """The complex numbers whose two parts lie beside each other in the last dimension, of size 2: a view.

    Raises:
        RuntimeError: for another last size, and where the parts don't lie beside each other.
    """
    return ops.view_as_complex(input)


def isreal(input: Any) -> Any:
    """Which elements have no imaginary part; of a real tensor all."""
    return eq(ops.imag(input) if is_complex(input) else zeros_like(input), 0)


def is_complex(input: Any) -> builtins.bool:
    """Whether the dtype (a tensor's, or given as it is) is a complex one."""
    return builtins.bool(_dtype_of("is_complex", input).kind == "c")


def _check_out(name: str, first: Any, second: Any, out: Any) -> None:
    expected = ops.complex_dtype(name, first._array.dtype, second._array.dtype)
    found = getattr(out, "dtype", None)
    if found != expected:
        raise RuntimeError(f"{name}: Expected object of scalar type {expected} but got scalar type {found} for 'out'")
