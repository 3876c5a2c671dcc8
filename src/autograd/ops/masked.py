"""Elements by mask written in order, and where elements are that are not 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec
from .elementwise import where
from .scatter import Put
from .shape import gather, index_backward, reshape


class MaskedScatter(Put):
    """A copy in which the elements where a mask is true are replaced by the first ones of a tensor, in order."""

    name = "masked_scatter"
    saves = (Slot("mask", 1),)

    def put(self, k: Any, out: Any, *args: Any) -> None:
        k.masked_put(out, *args)

    def attrs(self, x: Any, mask: Any, source: Any) -> Any:
        return source.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (mask,) = grads, saved
        need_x, _, need_source = node.needs_grad
        by_x = do(where, mask, 0.0, grad) if need_x else None
        by_source = None
        if need_source:
            chosen = do(gather, grad, mask)
            padded = do(index_backward, chosen, (slice(chosen.shape[0]),), (math.prod(node.op_attrs),))
            by_source = do(reshape, padded, node.op_attrs)
        return by_x, None, by_source


class Nonzero(Op):
    """Where the elements are that are not 0: a row of numbers for each."""

    name = "nonzero"
    differentiable = False

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return (((int(np.count_nonzero(x)), x.ndim), np.dtype(np.int64)),)

    def workspace(self, x: Any) -> int:
        count = int(np.count_nonzero(x))
        return 8 * count * max(int(x.ndim), 1)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.nonzero(x, out)


masked_scatter = MaskedScatter()
nonzero = Nonzero()
