"""Distances of every vector of one set from every vector of another."""

from __future__ import annotations

from typing import Any

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec, broadcast_shapes
from .elementwise import sub
from .promotion import check_floating
from .recompose import differentiated
from .shape import index, transpose
from .sum_to import expand
from .vector_norm import vector_norm

_ALL = slice(None)


class Cdist(Op):
    """The p-norm of the difference of each row of one matrix and each row of another; batches broadcast.

    The matrices and the distances are saved, never the differences.
    """

    name = "cdist"
    inputs = 2
    saves = (Slot("self", 0), Slot("other", 1), Slot("result", 0, output=True))

    def __call__(self, x1: Any, x2: Any, p: float = 2.0) -> Any:
        shapes = [x._array.shape for x in (x1, x2)]
        for number, shape in enumerate(shapes, start=1):
            if len(shape) < 2:
                raise RuntimeError(f"cdist only supports at least 2D tensors, X{number} got: {len(shape)}D")
        if shapes[0][-1] != shapes[1][-1]:
            raise RuntimeError(
                f"X1 and X2 must have the same number of columns. X1: {shapes[0][-1]} X2: {shapes[1][-1]}"
            )
        if p < 0:
            raise RuntimeError("cdist only supports non-negative p values")
        batch = broadcast_shapes(self.name, shapes[0][:-2], shapes[1][:-2])
        x1, x2 = (x if x._array.shape[:-2] == batch else expand(x, (*batch, *x._array.shape[-2:])) for x in (x1, x2))
        return apply(self, x1, x2, float(p))

    def infer(self, x1: Any, x2: Any, p: float) -> tuple[Spec, ...]:
        check_floating(self.name, x1.dtype)
        if x1.dtype != x2.dtype or x1.dtype.kind == "c":
            raise RuntimeError(f"cdist: expected real tensors of one dtype, got {x1.dtype} and {x2.dtype}")
        return (((*x1.shape[:-1], x2.shape[-2]), x1.dtype),)

    def kernel(self, k: Any, x1: Any, x2: Any, p: float, out: Any) -> None:
        k.cdist(x1, x2, out, p=p)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x1, x2, result = saved
        (grad,), (p,) = grads, node.op_attrs
        need_1, need_2 = node.needs_grad
        by_1 = do(cdist_backward, grad, x1, x2, result, p) if need_1 else None
        if not need_2:
            return by_1, None
        return by_1, do(cdist_backward, do(transpose, grad, -2, -1), x2, x1, do(transpose, result, -2, -1), p)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        def compose(x1: Any, x2: Any) -> Any:
            lines, others = index(x1, (..., _ALL, None, _ALL)), index(x2, (..., None, _ALL, _ALL))
            return vector_norm(sub(lines, others), node.op_attrs[0], (-1,))

        return differentiated(compose, tuple(saved[:2]), node.needs_grad, grads[0])


class CdistBackward(Op):
    """The gradient of the first matrix. It is only run where nothing is recorded."""

    name = "cdist_backward"
    inputs = 4

    def infer(self, grad: Any, x1: Any, x2: Any, result: Any, p: float) -> tuple[Spec, ...]:
        return ((x1.shape, x1.dtype),)

    def kernel(self, k: Any, grad: Any, x1: Any, x2: Any, result: Any, p: float, out: Any) -> None:
        k.cdist_backward(grad, x1, x2, result, out, p=p)


cdist = Cdist()
cdist_backward = CdistBackward()
