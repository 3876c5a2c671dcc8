"""Reductions over any axes, by CuPy's reduction kernels; half precision is added up in float32.

``out`` has the reduced axes as 1 or not at all: only its size counts.
"""

from __future__ import annotations

import cupy

from .launch import Array, kernel

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "argmax",
    "argmin",
    "mean",
    "sum",
    "sum_of_squares",
    "sum_to",
]

_SUM_OF_SQUARES = cupy.ReductionKernel(
    "T x", "float64 y", "(double)x * (double)x", "a + b", "y = a", "0", "stowgrad_sum_of_squares"
)


@kernel
def sum(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.sum(axes)``, over all axes for None; in ``out``'s dtype, half precision by way of float32."""
    if axes == ():
        cupy.copyto(out.reshape(x.shape), x, casting="unsafe")
    else:
        cupy.sum(x, axis=axes, dtype=out.dtype, out=_kept(x, out, axes))


@kernel
def mean(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.mean(axes)``."""
    sum(x, out, axes=axes)
    cupy.divide(out, float(x.size / out.size if out.size else 1), out=out)


@kernel
def sum_to(x: Array, out: Array) -> None:
    """``out = x`` summed over the axes along which ``out`` was broadcast to ``x``'s shape: broadcasting's reverse."""
    extra = x.ndim - out.ndim
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, length in enumerate(out.shape) if length == 1 and x.shape[axis + extra] != 1
    )
    sum(x, out, axes=axes)


@kernel
def amax(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.max(axes)``; NaN wins."""
    if axes == ():
        cupy.copyto(out.reshape(x.shape), x)
    else:
        cupy.amax(x, axis=axes, out=_kept(x, out, axes))


@kernel
def amin(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out = x.min(axes)``; NaN wins."""
    if axes == ():
        cupy.copyto(out.reshape(x.shape), x)
    else:
        cupy.amin(x, axis=axes, out=_kept(x, out, axes))


@kernel
def any(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out`` (bool): whether an element along the axes is not 0."""
    cupy.any(x, axis=axes, out=_kept(x, out, axes))


@kernel
def all(x: Array, out: Array, *, axes: tuple[int, ...] | None = None) -> None:
    """``out`` (bool): whether no element along the axes is 0."""
    cupy.all(x, axis=axes, out=_kept(x, out, axes))


@kernel
def argmax(x: Array, out: Array, *, axis: int | None = None) -> None:
    """``out`` (intp) ``= x.argmax(axis)``, of the flattened array for None: the first of equal ones."""
    cupy.argmax(x, axis=axis, out=_kept(x, out, None if axis is None else (axis,)))


@kernel
def argmin(x: Array, out: Array, *, axis: int | None = None) -> None:
    """``out`` (intp) ``= x.argmin(axis)``, of the flattened array for None: the first of equal ones."""
    cupy.argmin(x, axis=axis, out=_kept(x, out, None if axis is None else (axis,)))


@kernel
def sum_of_squares(x: Array) -> float:
    """The sum of all squares, in float64."""
    return float(_SUM_OF_SQUARES(x)) if x.size else 0.0


def _kept(x: Array, out: Array, axes: tuple[int, ...] | None) -> Array:
    """``out`` in the shape of ``x`` without the reduced axes."""
    gone = set(range(x.ndim)) if axes is None else {axis % x.ndim for axis in axes}
    return out.reshape(tuple(length for axis, length in enumerate(x.shape) if axis not in gone))
