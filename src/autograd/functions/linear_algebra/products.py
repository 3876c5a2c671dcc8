"""Products of `stowgrad.linalg`: the cross product, products along a dimension, chains and powers of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ops import products as ops
from ...ops import shape, view
from ...ops.cast import clone, to_dtype
from ...ops.complex import conj
from ...ops.elementwise import add
from ...ops.linalg import matmul as _matmul
from ...ops.matrices import check_square, join, triangles
from ...ops.promotion import promote
from ...ops.scan import cumprod
from ...ops.sum_to import expand
from ...out import into
from ...record import broadcast_shapes, normalize_dim
from ..einsum import contracted
from .solving import inv

__all__ = ["cross", "diagonal", "matmul", "matrix_power", "multi_dot", "vander", "vecdot"]


def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """The matrix product: of vectors, matrices and batches of them, as NumPy's."""
    return _matmul(input, other) if out is None else into(out, _matmul, input, other)


def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The diagonals of matrices, as a last dimension: a view."""
    return view.diagonal(A, offset, dim1, dim2)


def met(*tensors: Any) -> list[Any]:
    """Tensors in the dtype where they meet."""
    dtype = tensors[0]._array.dtype
    for tensor in tensors[1:]:
        dtype = promote(dtype, tensor._array.dtype)
    return [tensor if tensor._array.dtype == dtype else to_dtype(tensor, dtype) for tensor in tensors]


def cross(input: Any, other: Any, *, dim: int = -1, out: Any = None) -> Any:
    """The cross product of vectors of three along a dimension; the others are broadcast.

    Raises:
        RuntimeError: if the numbers of dimensions differ, or if ``dim`` does not have size 3 in both.
    """
    if out is not None:
        return into(out, cross, input, other, dim=dim)
    sizes, others = input._array.shape, other._array.shape
    if len(sizes) != len(others):
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, got {len(sizes)} and {len(others)}"
        )
    dim = normalize_dim("linalg.cross", dim, len(sizes))
    if not sizes or sizes[dim] != 3 or others[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got shapes {list(sizes)} and {list(others)}"
        )
    return ops.cross(*met(input, other), dim)


def vecdot(x: Any, y: Any, *, dim: int = -1, out: Any = None) -> Any:
    """The dot products of vectors along a dimension, the first of them conjugated; the others are broadcast."""
    if out is not None:
        return into(out, vecdot, x, y, dim=dim)
    if x._array.dtype != y._array.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but got {x._array.dtype} and {y._array.dtype}"
        )
    ndim = len(broadcast_shapes("linalg.vecdot", x._array.shape, y._array.shape))
    dim = normalize_dim("linalg.vecdot", dim, ndim)
    labels = [tuple(range(ndim - v._array.ndim, ndim)) for v in (x, y)]
    return contracted([conj(x), y], labels, tuple(label for label in range(ndim) if label != dim))


def vander(x: Any, N: int | None = None) -> Any:  # PyTorch's name
    """Matrices of the powers 0 to ``N - 1`` of vectors' elements: ``N`` columns, by default as many as rows."""
    sizes = x._array.shape or (1,)
    count = sizes[-1] if N is None else N
    if count <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {count}")
    ones = add(shape.zeros_of(x, (*sizes, 1)), 1)
    powers = cumprod(expand(shape.reshape(x, (*sizes, 1)), (*sizes, count - 1)), -1)
    return join(ones, powers, -1)


def multi_dot(tensors: Sequence[Any], *, out: Any = None) -> Any:
    """The product of two or more matrices, in the order that takes the fewest multiplications.

    The first and the last may be vectors: a row and a column.

    Raises:
        RuntimeError: for fewer than two tensors, for others than matrices, and for shapes that do not fit.
    """
    if out is not None:
        return into(out, multi_dot, tensors)
    given = list(tensors)
    if len(given) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(given)}")
    shapes = [tensor._array.shape for tensor in given]
    for number, sizes in enumerate(shapes):
        if len(sizes) != 2 and (len(sizes) != 1 or 0 < number < len(given) - 1):
            wanted = "2D" if 0 < number < len(given) - 1 else "1D or 2D"
            raise RuntimeError(f"multi_dot(): tensor {number} must be {wanted} but got {len(sizes)}D")
    row, column = len(shapes[0]) == 1, len(shapes[-1]) == 1
    if row:
        given[0] = shape.reshape(given[0], (1, *shapes[0]))
    if column:
        given[-1] = shape.reshape(given[-1], (*shapes[-1], 1))
    ends = [given[0]._array.shape[0], *(tensor._array.shape[1] for tensor in given)]
    for number, tensor in enumerate(given):
        if tensor._array.shape[0] != ends[number]:
            raise RuntimeError(
                f"multi_dot(): tensors {number - 1} and {number} with shapes {list(shapes[number - 1])} and"
                f" {list(shapes[number])} cannot be multiplied"
            )
    product = _in_best_order(given, _splits(ends), 0, len(given) - 1)
    sizes = (*(() if row else product._array.shape[:1]), *(() if column else product._array.shape[1:]))
    return shape.reshape(product, sizes) if row or column else product


def _splits(ends: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices of a chain, by the number of multiplications.

    Source: Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms, section 15.2.
    """
    count = len(ends) - 1
    cost = {(number, number): 0 for number in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length
            costs = [
                cost[first, middle] + cost[middle + 1, last] + ends[first] * ends[middle + 1] * ends[last + 1]
                for middle in range(first, last)
            ]
            cost[first, last] = min(costs)
            split[first, last] = first + costs.index(cost[first, last])
    return split


def _in_best_order(matrices: list[Any], split: dict[tuple[int, int], int], first: int, last: int) -> Any:
    if first == last:
        return matrices[first]
    middle = split[first, last]
    return _matmul(_in_best_order(matrices, split, first, middle), _in_best_order(matrices, split, middle + 1, last))


def matrix_power(A: Any, n: int, *, out: Any = None) -> Any:  # PyTorch's name
    """The n-th power of square matrices, by squaring; of the inverse for a negative n.

    Raises:
        RuntimeError: if the matrices are not square.
        LinAlgError: for a negative n, if one of them is singular.
    """
    if out is not None:
        return into(out, matrix_power, A, n)
    check_square("linalg.matrix_power", A._array)
    if n == 0:
        return triangles(A, 0, 0, 0, 1)
    if n < 0:
        A, n = inv(A), -n
    if n == 3:
        return _matmul(_matmul(A, A), A)
    power, square = None, A
    while True:
        if n & 1:
            power = square if power is None else _matmul(power, square)
        n >>= 1
        if not n:
            return clone(power) if power is A else power
        square = _matmul(square, square)
