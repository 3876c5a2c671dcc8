"""Elements by number along one dimension: gathered, and written, added or folded into a copy.

NOTE [ Writes by number ]
1. Numbers of a gather or a scatter are one for each element, those of the ``index_`` ops one for each row. Either way a
   node keeps the numbers that it was given, and no copy of them; only folds (prod, amin, amax) keep values, too.
2. What is written is a copy of the first input: `Put.put` writes into it. The in-place forms call that alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels.index_range import all_in_range
from ...memory import META
from ..dispatch import Op
from ..record import Do, Slot, Spec
from ..whole import FewOp, apply_together
from .elementwise import add, div, eq, mul, sub, where
from .few_rows import add_elements, add_rows, elements_at, or_none, rows_at, sums_of_elements, sums_of_rows
from .promotion import is_floating
from .reduce import sum as sum_of
from .shape import zeros_of

_INDEX = Slot("index", 1)


def check_numbers(name: str, index: Any, size: int, dim: int, error: type[Exception] = RuntimeError) -> None:
    """Raise unless all numbers of a tensor are at least 0 and below a size."""
    array = index._array
    if index._storage.device is not META and not all_in_range(array, size):
        least = int(array.min())
        wrong = least if least < 0 else int(array.max())
        raise error(f"{name}: index {wrong} is out of bounds for dimension {dim} with size {size}")


class GatherAlong(FewOp):
    """Elements by number along a dimension, a number for each."""

    name = "gather"
    inputs = 2
    saves = (Slot("index", 1, needed_for=(0,)),)

    def __call__(self, *args: Any) -> Any:
        return apply_together(self, *args)

    def small_marked(self, x: Any, index: Any, dim: int) -> tuple[Any, ...] | None:
        return or_none(elements_at(x, index, dim))

    def infer(self, x: Any, index: Any, dim: int) -> tuple[Spec, ...]:
        return ((index.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, index: Any, dim: int, out: Any) -> None:
        k.gather_along(x, index, out, axis=dim)

    def attrs(self, x: Any, index: Any, dim: int) -> Any:
        return dim, x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(gather_along_backward, grads[0], saved[0], *node.op_attrs), None


class GatherAlongBackward(FewOp):
    """Zeros with gradients added where a gather looked."""

    name = "gather_backward"
    inputs = 2
    saves = (Slot("index", 1, needed_for=(0,)),)

    def small_marked(self, grad: Any, index: Any, dim: int, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
        return or_none(sums_of_elements(grad, index, shape, dim))

    def infer(self, grad: Any, index: Any, dim: int, shape: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, index: Any, dim: int, shape: tuple[int, ...], out: Any) -> None:
        k.fill(out, 0)
        k.scatter_add_along(out, index, grad, axis=dim)

    def attrs(self, grad: Any, index: Any, dim: int, shape: tuple[int, ...]) -> Any:
        return dim

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(gather_along, grads[0], saved[0], node.op_attrs), None


class Put(Op):
    """A copy of a tensor with some elements changed (note, rule 2)."""

    inputs = 3
    saves: tuple[Slot, ...] = (_INDEX,)
    fresh = False

    def infer(self, x: Any, *args: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        x, *args, out = args_and_outs
        k.copy(x, out)
        self.put(k, out, *args)

    def put(self, k: Any, out: Any, *args: Any) -> None:
        """Change elements of ``out``."""
        raise NotImplementedError(f"{self.name} does not say what it writes")


class _FewPut(Put, FewOp):
    """One that a few calls of NumPy do to few elements."""

    def __call__(self, *args: Any) -> Any:
        return apply_together(self, *args)

    def small_marked(self, x: Any, *args: Any) -> tuple[Any, ...] | None:
        out = x.copy()
        return (out,) if self.put_few(out, *args) else None

    def put_few(self, out: Any, *args: Any) -> bool:
        """`put` into a new array; whether that was possible."""
        raise NotImplementedError(f"{self.name} does not say what it writes")


class Scatter(Put):
    """A copy with elements replaced, a number for each; by one number, or by a tensor of the index's shape."""

    name = "scatter"

    def put(self, k: Any, out: Any, *args: Any) -> None:
        index, src, dim = args
        k.scatter_along(out, index, src, axis=dim)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (dim,) = grads, node.op_attrs
        need_x, _, need_src = node.needs_grad
        by_x = do(scatter, grad, saved[0], 0.0, dim) if need_x else None
        return by_x, None, do(gather_along, grad, saved[0], dim) if need_src else None


class ScatterAdd(_FewPut):
    """A copy with elements of a tensor of the index's shape added, a number for each."""

    name = "scatter_add"
    saves = (Slot("index", 1, needed_for=(2,)),)

    def put_few(self, out: Any, *args: Any) -> bool:
        index, src, dim = args
        return src.dtype is out.dtype and add_elements(out, index, src, dim)

    def put(self, k: Any, out: Any, *args: Any) -> None:
        index, src, dim = args
        k.scatter_add_along(out, index, src, axis=dim)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (dim,) = grads, node.op_attrs
        need_x, _, need_src = node.needs_grad
        return grad if need_x else None, None, do(gather_along, grad, saved[0], dim) if need_src else None


class ScatterReduce(Put):
    """A copy into which elements of a tensor of the index's shape are folded, a number for each.

    Called with the dimension, with ``"prod"``, ``"amin"`` or ``"amax"``, and whether the former element takes part.
    """

    name = "scatter_reduce"
    saves = (Slot("self", 0), _INDEX, Slot("src", 2), Slot("result", 0, output=True))
    fresh = True

    def put(self, k: Any, out: Any, *args: Any) -> None:
        index, src, dim, fold, include_self = args
        if not include_self:
            k.scatter_along(out, index, _neutral(fold, out.dtype), axis=dim)
        k.scatter_fold_along(out, index, src, axis=dim, fold=fold)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        dim, fold, include_self = node.op_attrs
        partials = self._of_product if fold == "prod" else self._of_extreme
        by_x, by_src = partials(do, grads[0], saved, dim, fold, include_self)
        if not include_self and node.needs_grad[0]:
            by_x = do(scatter, by_x, saved[1], 0.0, dim)
        return by_x if node.needs_grad[0] else None, None, by_src if node.needs_grad[2] else None

    def _of_product(
        self, do: Do, grad: Any, saved: tuple[Any, ...], dim: int, fold: str, include_self: bool
    ) -> tuple[Any, Any]:
        x, index, src, result = saved
        # What a zero is multiplied with comes of the product without it.
        safe = do(where, do(eq, x, 0), 1.0, x)
        by_x = do(div, do(mul, grad, do(scatter_reduce, safe, index, src, dim, fold, include_self)), safe)
        # So it does for elements of ``src``, unless another of them is zero in the same place: then the derivative is
        # 0, but not its derivative with respect to the other one, which is their sum without this one.
        is_zero, nowhere = do(eq, src, 0), do(zeros_of, grad, tuple(x.shape))
        marks = do(where, is_zero, do(add, do(zeros_of, grad, tuple(src.shape)), 1.0), 0.0)
        together = do(gather_along, do(scatter_add, nowhere, index, marks, dim), index, dim)
        zeros = do(where, is_zero, src, 0.0)
        other = do(sub, do(gather_along, do(scatter_add, nowhere, index, zeros, dim), index, dim), zeros)
        factor = do(where, do(eq, together, 1), marks, do(where, do(eq, together, 2), other, 0.0))
        without = do(scatter_reduce, x, index, do(where, is_zero, 1.0, src), dim, fold, include_self)
        of_zero = do(mul, do(gather_along, do(mul, grad, without), index, dim), factor)
        others = do(div, do(gather_along, do(mul, grad, result), index, dim), do(where, is_zero, 1.0, src))
        return by_x, do(where, is_zero, of_zero, others)

    def _of_extreme(
        self, do: Do, grad: Any, saved: tuple[Any, ...], dim: int, fold: str, include_self: bool
    ) -> tuple[Any, Any]:
        """Elements that are the extreme share the gradient."""
        x, index, src, result = saved
        ones_x = do(add, do(zeros_of, grad, tuple(x.shape)), 1.0)
        ones_src = do(add, do(zeros_of, grad, tuple(src.shape)), 1.0)
        by_x = do(where, do(eq, x, result), ones_x, 0.0)
        if not include_self:
            by_x = do(scatter, by_x, index, 0.0, dim)
        by_src = do(where, do(eq, src, do(gather_along, result, index, dim)), ones_src, 0.0)
        count = do(scatter_add, by_x, index, by_src, dim)
        share = do(div, grad, do(where, do(eq, count, 0), 1.0, count))
        return do(mul, by_x, share), do(mul, by_src, do(gather_along, share, index, dim))


def _neutral(fold: str, dtype: np.dtype[Any]) -> Any:
    """What a fold begins with."""
    if fold == "prod":
        return 1
    if is_floating(dtype):
        return float("inf") if fold == "amin" else float("-inf")
    if dtype.kind == "b":
        return fold == "amin"
    return np.iinfo(dtype).max if fold == "amin" else np.iinfo(dtype).min


# -- one number for each row -------------------------------------------------------------------------------------------


class IndexSelect(FewOp):
    """Rows by number along a dimension."""

    name = "index_select"
    inputs = 2
    saves = (Slot("index", 1, needed_for=(0,)),)

    def __call__(self, *args: Any) -> Any:
        return apply_together(self, *args)

    def small_marked(self, x: Any, index: Any, dim: int) -> tuple[Any, ...] | None:
        return or_none(rows_at(x, index, dim))

    def infer(self, x: Any, index: Any, dim: int) -> tuple[Spec, ...]:
        return (((*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]), x.dtype),)

    def kernel(self, k: Any, x: Any, index: Any, dim: int, out: Any) -> None:
        k.take_rows(x, index, out, axis=dim)

    def attrs(self, x: Any, index: Any, dim: int) -> Any:
        return dim, x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(index_select_backward, grads[0], saved[0], *node.op_attrs), None


class IndexSelectBackward(FewOp):
    """Zeros with gradients added to the rows that were selected."""

    name = "index_select_backward"
    inputs = 2
    saves = (Slot("index", 1, needed_for=(0,)),)

    def small_marked(self, grad: Any, index: Any, dim: int, shape: tuple[int, ...]) -> tuple[Any, ...] | None:
        return or_none(None if dim else sums_of_rows(grad, index, shape))

    def infer(self, grad: Any, index: Any, dim: int, shape: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, index: Any, dim: int, shape: tuple[int, ...], out: Any) -> None:
        k.index_sums(index, grad, out, axis=dim)

    def attrs(self, grad: Any, index: Any, dim: int, shape: tuple[int, ...]) -> Any:
        return dim

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(index_select, grads[0], saved[0], node.op_attrs), None


class IndexAdd(_FewPut):
    """A copy with a multiple of a tensor's rows added to rows by number."""

    name = "index_add"
    saves = (Slot("index", 1, needed_for=(2,)),)

    def put_few(self, out: Any, *args: Any) -> bool:
        index, src, dim, alpha = args
        return not dim and alpha == 1 and src.dtype is out.dtype and src.size > 0 and add_rows(out, index, src)

    def kernel(self, k: Any, *args_and_outs: Any) -> None:
        x, index, src, dim, alpha, out = args_and_outs
        k.index_added(x, index, src, out, axis=dim, alpha=alpha)

    def put(self, k: Any, out: Any, *args: Any) -> None:
        index, src, dim, alpha = args
        k.index_add(out, index, src, axis=dim, alpha=alpha)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (dim, alpha) = grads, node.op_attrs
        need_x, _, need_src = node.needs_grad
        by_src = do(index_select, grad, saved[0], dim) if need_src else None
        if need_src and alpha != 1:
            by_src = do(mul, by_src, alpha.conjugate())
        return grad if need_x else None, None, by_src


class IndexCopy(Put):
    """A copy with rows replaced by number."""

    name = "index_copy"

    def put(self, k: Any, out: Any, *args: Any) -> None:
        index, src, dim = args
        k.index_put_rows(out, index, src, axis=dim)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (dim,) = grads, node.op_attrs
        need_x, _, need_src = node.needs_grad
        by_x = do(index_fill, grad, saved[0], 0.0, dim) if need_x else None
        return by_x, None, do(index_select, grad, saved[0], dim) if need_src else None


class IndexFill(Put):
    """A copy with rows filled with one number."""

    name = "index_fill"

    def put(self, k: Any, out: Any, *args: Any) -> None:
        index, value, dim = args
        k.index_put_rows(out, index, value, axis=dim)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (dim,) = grads, node.op_attrs
        need_x, _, need_value = node.needs_grad
        by_x = do(index_fill, grad, saved[0], 0.0, dim) if need_x else None
        if not need_value:
            return by_x, None, None
        shape = tuple(grad.shape)
        marks = do(index_fill, do(zeros_of, grad, shape), saved[0], 1.0, dim)  # a row that is named twice counts once
        return by_x, None, do(sum_of, do(mul, grad, marks), tuple(range(len(shape))), False)


gather_along, gather_along_backward = GatherAlong(), GatherAlongBackward()
scatter, scatter_add, scatter_reduce = Scatter(), ScatterAdd(), ScatterReduce()
index_select, index_select_backward = IndexSelect(), IndexSelectBackward()
index_add, index_copy, index_fill = IndexAdd(), IndexCopy(), IndexFill()
