"""Products of vectors and matrices, as functions of the top level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ops import linalg as ops
from ..ops import products, shape
from ..ops.complex import conj
from ..ops.elementwise import mul
from ..out import into
from ..record import broadcast_shapes, normalize_dim
from .einsum import contracted, einsum
from .linear_algebra.products import cross as _cross
from .linear_algebra.products import matrix_power, met, multi_dot

__all__ = [
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "cross",
    "dot",
    "einsum",
    "ger",
    "inner",
    "kron",
    "matmul",
    "matrix_power",
    "mm",
    "mv",
    "outer",
    "tensordot",
    "vdot",
]


def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """The matrix product: of vectors, matrices and batches of them, as NumPy's."""
    return ops.matmul(input, other) if out is None else into(out, ops.matmul, input, other)


def _check_dims(name: str, *wanted: tuple[str, Any, int]) -> None:
    """Raise RuntimeError for a tensor with another number of dimensions than it should have."""
    for argument, tensor, ndim in wanted:
        if tensor._array.ndim != ndim:
            kinds = {1: "a vector (1D)", 2: "a matrix (2D)", 3: "a batch of matrices (3D)"}
            raise RuntimeError(
                f"{name}: {argument} must be {kinds[ndim]}, got a {tensor._array.ndim}D tensor of shape"
                f" {list(tensor._array.shape)}"
            )


def _check_fit(name: str, x: Any, y: Any) -> None:
    """Raise RuntimeError unless x's last size is y's first or, of a batch, second one, and the batches are equal."""
    a, b = x._array.shape, y._array.shape
    if a[-1] != b[-2 if len(b) > 1 else 0] or (len(b) == 3 and a[0] != b[0]):
        raise RuntimeError(f"{name}: shapes {list(a)} and {list(b)} cannot be multiplied")


def mm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """The product of two matrices."""
    if out is not None:
        return into(out, mm, input, mat2)
    _check_dims("mm", ("input", input, 2), ("mat2", mat2, 2))
    return ops.matmul(input, mat2)


def bmm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """The products of two batches of matrices, without broadcasting."""
    if out is not None:
        return into(out, bmm, input, mat2)
    _check_dims("bmm", ("input", input, 3), ("mat2", mat2, 3))
    _check_fit("bmm", input, mat2)
    return ops.matmul(input, mat2)


def mv(input: Any, vec: Any, *, out: Any = None) -> Any:
    """The product of a matrix and a vector."""
    if out is not None:
        return into(out, mv, input, vec)
    _check_dims("mv", ("input", input, 2), ("vec", vec, 1))
    return ops.matmul(input, vec)


def dot(input: Any, tensor: Any, *, out: Any = None) -> Any:
    """The dot product of two vectors; nothing is conjugated."""
    if out is not None:
        return into(out, dot, input, tensor)
    _check_dims("dot", ("input", input, 1), ("tensor", tensor, 1))
    return ops.matmul(input, tensor)


def vdot(input: Any, other: Any, *, out: Any = None) -> Any:
    """The dot product of two vectors, the first of them conjugated."""
    if out is not None:
        return into(out, vdot, input, other)
    _check_dims("vdot", ("input", input, 1), ("other", other, 1))
    return ops.matmul(conj(input), other)


def inner(input: Any, other: Any, *, out: Any = None) -> Any:
    """The dot products along the last dimensions of two tensors; a product if one has no dimension."""
    if out is not None:
        return into(out, inner, input, other)
    x, y = input._array.ndim, other._array.ndim
    if not x or not y:
        return mul(input, other)
    if input._array.shape[-1] != other._array.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input._array.shape)} and"
            f" {list(other._array.shape)}"
        )
    left, right = tuple(range(x)), (*range(x, x + y - 1), x - 1)
    return products.contraction(input, other, left, right, (*left[:-1], *right[:-1]))


def outer(input: Any, vec2: Any, *, out: Any = None) -> Any:
    """The products of each element of a vector with each of another."""
    if out is not None:
        return into(out, outer, input, vec2)
    _check_dims("outer", ("input", input, 1), ("vec2", vec2, 1))
    x, y = met(input, vec2)
    return products.contraction(x, y, (0,), (1,), (0, 1))


def ger(input: Any, vec2: Any, *, out: Any = None) -> Any:
    """`outer` by its old name."""
    return outer(input, vec2, out=out)


def kron(input: Any, other: Any, *, out: Any = None) -> Any:
    """The Kronecker product: each element of ``input`` times ``other``, in the order of blocks."""
    if out is not None:
        return into(out, kron, input, other)
    x, y = met(input, other)
    ndim = max(x._array.ndim, y._array.ndim)
    a, b = ((*[1] * (ndim - v._array.ndim), *v._array.shape) for v in (x, y))
    x, y = shape.reshape(x, a), shape.reshape(y, b)
    rows, columns = tuple(range(0, 2 * ndim, 2)), tuple(range(1, 2 * ndim, 2))
    product = products.contraction(x, y, rows, columns, tuple(range(2 * ndim)))
    return shape.reshape(product, tuple(m * n for m, n in zip(a, b, strict=True)))


def cross(input: Any, other: Any, dim: int | None = None, *, out: Any = None) -> Any:
    """The cross product of vectors of three along a dimension: by default the first one of size 3."""
    if out is not None:
        return into(out, cross, input, other, dim)
    if dim is None:
        sizes = input._array.shape
        if 3 not in sizes:
            raise RuntimeError(f"cross: no dimension of size 3 in an input of shape {list(sizes)}")
        dim = sizes.index(3)
    return _cross(input, other, dim=dim)


def tensordot(a: Any, b: Any, dims: Any = 2, *, out: Any = None) -> Any:
    """Products summed over pairs of dimensions.

    Args:
        dims: the number of last dimensions of ``a`` and first ones of ``b``, or the dimensions of each as two lists.

    Raises:
        RuntimeError: if a pair's sizes differ and neither is 1.
    """
    if out is not None:
        return into(out, tensordot, a, b, dims)
    x, y = a._array.ndim, b._array.ndim
    dims = dims.tolist() if hasattr(dims, "_array") else dims
    if isinstance(dims, int):
        if not 0 <= dims <= min(x, y):
            raise RuntimeError(f"tensordot expects dims >= 0 and at most {min(x, y)}, but got dims={dims}")
        first, second = list(range(x - dims, x)), list(range(dims))
    else:
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError("tensordot: both dimension lists should have same length")
    left, right = list(range(x)), list(range(x, x + y))
    for p, q in zip(first, second, strict=True):
        p, q = normalize_dim("tensordot", p, x), normalize_dim("tensordot", q, y)
        m, n = a._array.shape[p], b._array.shape[q]
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but first has size {m} in dim {p} and second has size"
                f" {n} in dim {q}"
            )
        right[q] = left[p]
    shared = {*left} & {*right}
    result = (*(label for label in left if label not in shared), *(label for label in right if label not in shared))
    return contracted([a, b], [tuple(left), tuple(right)], result)


def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """The product of matrices, in the order that takes the fewest multiplications."""
    given: Sequence[Any] = matrices[0] if len(matrices) == 1 and isinstance(matrices[0], list | tuple) else matrices
    for number, matrix in enumerate(given):
        _check_dims("chain_matmul", (f"matrix {number}", matrix, 2))
    if len(given) == 1:
        return given[0]
    return multi_dot(given, out=out)


# -- with something added ----------------------------------------------------------------------------------------------


def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """``beta * input + alpha * (mat1 @ mat2)``; ``input`` is broadcast, and not read where ``beta`` is 0."""
    if out is not None:
        return into(out, addmm, input, mat1, mat2, beta=beta, alpha=alpha)
    _check_dims("addmm", ("mat1", mat1, 2), ("mat2", mat2, 2))
    _check_fit("addmm", mat1, mat2)
    return products.add_contraction(input, mat1, mat2, (0, 1), (1, 2), (0, 2), beta, alpha)


def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """``beta * input + alpha * (mat @ vec)``; ``input`` is broadcast."""
    if out is not None:
        return into(out, addmv, input, mat, vec, beta=beta, alpha=alpha)
    _check_dims("addmv", ("mat", mat, 2), ("vec", vec, 1))
    _check_fit("addmv", mat, vec)
    return products.add_contraction(input, mat, vec, (0, 1), (1,), (0,), beta, alpha)


def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """``beta * input + alpha * outer(vec1, vec2)``; ``input`` is broadcast."""
    if out is not None:
        return into(out, addr, input, vec1, vec2, beta=beta, alpha=alpha)
    _check_dims("addr", ("vec1", vec1, 1), ("vec2", vec2, 1))
    return products.add_contraction(*met(input, vec1, vec2), (0,), (1,), (0, 1), beta, alpha)


def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """``beta * input + alpha * bmm(batch1, batch2)``; ``input`` is broadcast."""
    if out is not None:
        return into(out, baddbmm, input, batch1, batch2, beta=beta, alpha=alpha)
    _check_dims("baddbmm", ("batch1", batch1, 3), ("batch2", batch2, 3))
    _check_fit("baddbmm", batch1, batch2)
    return products.add_contraction(input, batch1, batch2, (0, 1, 2), (0, 2, 3), (0, 1, 3), beta, alpha)


def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """``beta * input + alpha *`` the sum of ``bmm(batch1, batch2)`` over the batch; ``input`` is broadcast."""
    if out is not None:
        return into(out, addbmm, input, batch1, batch2, beta=beta, alpha=alpha)
    _check_dims("addbmm", ("batch1", batch1, 3), ("batch2", batch2, 3))
    _check_fit("addbmm", batch1, batch2)
    n, p = batch1._array.shape[1], batch2._array.shape[2]
    if broadcast_shapes("addbmm", input._array.shape, (n, p)) != (n, p):
        raise RuntimeError(f"addbmm: an input of shape {list(input._array.shape)} can't be expanded to {[n, p]}")
    return products.add_contraction(input, batch1, batch2, (0, 1, 2), (0, 2, 3), (1, 3), beta, alpha)
