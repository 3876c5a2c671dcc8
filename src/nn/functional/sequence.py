"""Functions of sequences."""

from __future__ import annotations

from ...autograd.ops.rotary import rotary_embedding as rotary_op
from ...autograd.tensor import Tensor
from ._checks import check_tensors

__all__ = ["rotary_embedding"]


def rotary_embedding(input: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    """Rotary position embedding: pairs ``(a, b)`` of the last dimension as ``(a * cos - b * sin, b * cos + a * sin)``.

    Args:
        input: ``(*, T, D)``.
        cos, sin: of the angles: of one shape that broadcasts to ``(*, T, R)`` with ``2 * R <= D``. What lies beyond the
            first ``2 * R`` numbers stays as it is. They may be of another floating-point dtype.
        interleaved: whether the pairs are neighbours, ``(x[0], x[1]), (x[2], x[3]), ...``; else element i makes a pair
            with element ``i + R``.

    Returns:
        As ``input``.

    Raises:
        RuntimeError: if the shapes do not fit.

    Keeps ``cos`` and ``sin``.

    >>> import stowgrad
    >>> x = stowgrad.tensor([[1.0, 0.0]])
    >>> stowgrad.nn.functional.rotary_embedding(x, stowgrad.zeros(1, 1), stowgrad.ones(1, 1)).tolist()
    [[0.0, 1.0]]
    """
    check_tensors("rotary_embedding", input=input, cos=cos, sin=sin)
    result: Tensor = rotary_op(input, cos, sin, interleaved)
    return result
