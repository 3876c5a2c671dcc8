"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from .elementwise import add, mul, sub
from .promotion import check_floating
from .shape import index
from .sum_to import reduced


class RotaryEmbedding(Op):
    """The pairs ``(a, b)`` of the last dimension, turned: ``(a * cos - b * sin, b * cos + a * sin)``.

    Only the angles' cosines and sines are saved; the input too where these need gradients. Called with the input,
    cosines and sines of shapes that broadcast to that of the pairs, whether pairs are neighbours, and whether to turn
    back.

    Source: Su et al., RoFormer: Enhanced Transformer with Rotary Position Embedding, 2021.
    """

    name = "rotary_embedding"
    inputs = 3
    saves = (Slot("self", 0, needed_for=(1, 2)), Slot("cos", 1, needed_for=(0,)), Slot("sin", 2, needed_for=(0,)))

    def __call__(self, x: Any, cos: Any, sin: Any, interleaved: bool = False, inverse: bool = False) -> Any:
        return apply(self, x, cos, sin, interleaved, inverse)

    def infer(self, x: Any, cos: Any, sin: Any, interleaved: bool, inverse: bool) -> tuple[Spec, ...]:
        for array in (x, cos, sin):
            check_floating(self.name, array.dtype)
        fits = (
            x.ndim and cos.ndim and cos.shape == sin.shape and cos.ndim <= x.ndim and 2 * cos.shape[-1] <= x.shape[-1]
        )
        lead = zip(cos.shape[-2::-1], x.shape[-2::-1], strict=False) if fits else ()
        if not fits or any(size not in (1, full) for size, full in lead):
            raise RuntimeError(
                "rotary_embedding: expected cos and sin of one shape that broadcasts to that of the input with at most"
                f" half of its last dimension, got {list(x.shape)}, {list(cos.shape)} and {list(sin.shape)}"
            )
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, cos: Any, sin: Any, interleaved: bool, inverse: bool, out: Any) -> None:
        k.rotary_embedding(x, cos, sin, out, interleaved=interleaved, inverse=inverse)

    def attrs(self, x: Any, cos: Any, sin: Any, interleaved: bool, inverse: bool) -> Any:
        return cos.shape, interleaved, inverse

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (x, cos, sin) = grads, saved
        shape, interleaved, inverse = node.op_attrs
        by_x = by_cos = by_sin = None
        if node.needs_grad[0]:
            by_x = do(rotary_embedding, grad, cos, sin, interleaved, not inverse)
        if node.needs_grad[1] or node.needs_grad[2]:
            a, b = _halves(do, x, shape[-1], interleaved)
            first, second = _halves(do, grad, shape[-1], interleaved)
            if node.needs_grad[1]:
                by_cos = reduced(do, do(add, do(mul, first, a), do(mul, second, b)), shape)
            if node.needs_grad[2]:
                terms = (do(mul, second, a), do(mul, first, b))
                by_sin = reduced(do, do(sub, *(terms[::-1] if inverse else terms)), shape)
        return by_x, by_cos, by_sin


def _halves(do: Do, x: Any, pairs: int, interleaved: bool) -> tuple[Any, Any]:
    """The first and the second ones of the pairs."""
    parts = [slice(start, 2 * pairs, 2) for start in (0, 1)]
    if not interleaved:
        parts = [slice(0, pairs), slice(pairs, 2 * pairs)]
    return do(index, x, (..., parts[0])), do(index, x, (..., parts[1]))


rotary_embedding = RotaryEmbedding()
