"""What formulas over matrices are written with, and the checks of their functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...memory import META, storage_of
from ..dispatch import Op
from ..record import Do, Spec
from ..variable import Variable
from .complex import conj
from .elementwise import mul
from .linalg import matmul
from .promotion import category
from .shape import Cat, expand, reshape, transpose

INFO = np.dtype(np.int32)


class Triangles(Op):
    """Matrices whose elements below, on and above the diagonal are multiplied by a factor each, exactly 0 for a 0.

    In place of the diagonal it can put a number.
    """

    name = "triangles"

    def __call__(self, x: Any, below: float, diagonal: float, above: float, fill: float | None = None) -> Any:
        return super().__call__(x, below, diagonal, above, fill)

    def run_arrays(self, device: Any, *args: Any) -> Any:
        return super().run_arrays(device, *args, *(() if len(args) == 5 else (None,)))

    def infer(self, x: Any, *factors: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, below: float, diagonal: float, above: float, fill: Any, out: Any) -> None:
        k.triangles(x, out, below=below, diagonal=diagonal, above=above, fill=fill)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        below, diagonal, above, fill = node.op_attrs
        return (do(triangles, grads[0], below, diagonal if fill is None else 0, above),)


triangles = Triangles()
join = Cat(2)  # two tensors, one after another along a dimension


# -- in formulas -------------------------------------------------------------------------------------------------------


def adjoint(do: Do, x: Any) -> Any:
    """The conjugate transpose of matrices."""
    return do(conj, do(transpose, x, -1, -2))


def product(do: Do, first: Any, *others: Any) -> Any:
    """The product of matrices, from left to right."""
    for other in others:
        first = do(matmul, first, other)
    return first


def row(do: Do, vector: Any) -> Any:
    """Vectors as matrices of one row: factors for columns."""
    return do(reshape, vector, (*vector.shape[:-1], 1, vector.shape[-1]))


def column(do: Do, vector: Any) -> Any:
    """Vectors as matrices of one column: factors for rows."""
    return do(reshape, vector, (*vector.shape, 1))


def scale_columns(do: Do, x: Any, vector: Any) -> Any:
    """``x @ diag(vector)``."""
    return do(mul, x, row(do, vector))


def scale_rows(do: Do, vector: Any, x: Any) -> Any:
    """``diag(vector) @ x``."""
    return do(mul, x, column(do, vector))


def diagonal_matrix(do: Do, vector: Any) -> Any:
    """``diag(vector)``."""
    size = vector.shape[-1]
    return do(triangles, do(expand, row(do, vector), (*vector.shape[:-1], size, size)), 0, 1, 0)


def lower(do: Do, x: Any) -> Any:
    """The elements below the diagonal and on it."""
    return do(triangles, x, 1, 1, 0)


def strictly_lower(do: Do, x: Any) -> Any:
    """The elements below the diagonal."""
    return do(triangles, x, 1, 0, 0)


def upper(do: Do, x: Any) -> Any:
    """The elements on the diagonal and above it."""
    return do(triangles, x, 0, 1, 1)


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the parts of a number."""
    return np.empty(0, dtype).real.dtype


def one(x: Any) -> int:
    """Bytes of one matrix of a batch: LAPACK works on copies of them, one after another."""
    return int(x.shape[-2] * x.shape[-1] * x.dtype.itemsize)


def is_any(mask: Any) -> bool:
    """Whether an element is true, for a formula that differs where it is; on the meta device none is."""
    storage = mask._storage if isinstance(mask, Variable) else storage_of(mask)
    if storage is not None and storage.device is META:
        return False
    return bool((mask._array if isinstance(mask, Variable) else mask).any())


# -- checks ------------------------------------------------------------------------------------------------------------


def check_numbers(name: str, array: Any, low_precision: bool = False) -> None:
    """Raise a RuntimeError for integers and, unless they are allowed, for floats of two bytes."""
    if category(array.dtype) < 2:
        raise NotImplementedError(f"{name}: Expected a floating point or complex tensor as input. Got {array.dtype}")
    if array.dtype.itemsize == 2 and not low_precision:
        raise NotImplementedError(
            f"{name}: Low precision dtypes not supported. Got {array.dtype}; convert it with .float()"
        )


def check_matrices(name: str, array: Any, argument: str = "A") -> None:
    """Raise RuntimeError for what are no matrices of floating-point or complex numbers."""
    if array.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {argument} must have at least 2 dimensions, got shape {list(array.shape)}."
        )
    check_numbers(name, array)


def check_square(name: str, array: Any, argument: str = "A") -> None:
    """Raise RuntimeError for what are no square matrices."""
    if array.ndim < 2:
        raise RuntimeError(
            f"{name}: The input tensor {argument} must have at least 2 dimensions, got shape {list(array.shape)}."
        )
    if array.shape[-1] != array.shape[-2]:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {array.shape[-2]} by"
            f" {array.shape[-1]} matrices"
        )
