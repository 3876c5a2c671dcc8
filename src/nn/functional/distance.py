"""Distances and similarities of vectors."""

from __future__ import annotations

from ...autograd.functions.distances import pdist
from ...autograd.functions.linear_algebra.norms import vector_norm
from ...autograd.grad_mode import no_grad
from ...autograd.ops.promotion import category
from ...autograd.ops.sum_to import expand
from ...autograd.record import broadcast_shapes
from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension.

    Args:
        x1, x2: of shapes that broadcast.
        dim: of the common shape; it is gone from the result.
        eps: the least that a norm counts as.

    Raises:
        RuntimeError: if the shapes do not broadcast, or for integers.

    Keeps the vectors, normalised and not, and their norms.

    >>> import stowgrad
    >>> stowgrad.nn.functional.cosine_similarity(stowgrad.tensor([[3.0, 4.0]]), stowgrad.tensor([[6.0, 8.0]])).tolist()
    [1.0]
    """
    check_tensors("cosine_similarity", x1=x1, x2=x2)
    for x in (x1, x2):
        if category(x.dtype) < 2:
            raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {x.dtype}")
    shape = broadcast_shapes("cosine_similarity", tuple(x1.shape), tuple(x2.shape))
    first, second = (x if tuple(x.shape) == shape else expand(x, shape) for x in (x1, x2))
    result: Tensor = (_normalized(first, dim, eps) * _normalized(second, dim, eps)).sum(dim)
    return result


def _normalized(x: Tensor, dim: int, eps: float) -> Tensor:
    norm: Tensor = vector_norm(x, 2, dim, keepdim=True)
    result: Tensor = x / held_above(norm, eps)
    return result


def held_above(x: Tensor, least: float) -> Tensor:
    """``x``, at least ``least``, with the gradient of ``x`` everywhere."""
    with no_grad():
        lacking = x.detach().clamp_min(least) - x.detach()
    result: Tensor = x + lacking
    return result


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of ``x1 - x2 + eps`` along the last dimension.

    Args:
        x1, x2: of shapes that broadcast.
        p: which norm.
        eps: what keeps the norm of equal vectors differentiable.
        keepdim: whether the last dimension stays, with the size 1.

    Raises:
        RuntimeError: if the shapes do not broadcast.

    Keeps the difference and the result.
    """
    check_tensors("pairwise_distance", x1=x1, x2=x2)
    result: Tensor = vector_norm(x1 - x2 + eps, p, -1, keepdim=keepdim)
    return result
