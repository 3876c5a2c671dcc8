"""Copies with elements in another order, repeated, or left out; none of them keeps a value for backward."""

from __future__ import annotations

import itertools
from typing import Any

from ..dispatch import Op
from ..record import Do, Spec
from .reduce import sum as sum_of
from .shape import index, reshape


class Flip(Op):
    """Some dimensions in reverse order."""

    name = "flip"

    def infer(self, x: Any, dims: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], out: Any) -> None:
        k.copy(x[(*[slice(None, None, -1) if dim in dims else slice(None) for dim in range(x.ndim)], ...)], out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(flip, grads[0], *node.op_attrs),)


class Roll(Op):
    """Elements shifted along dimensions; what leaves at an end comes in at the other.

    Called with pairs of a dimension and a shift from 0 up to its size.
    """

    name = "roll"

    def infer(self, x: Any, shifts: tuple[tuple[int, int], ...]) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, shifts: tuple[tuple[int, int], ...], out: Any) -> None:
        halves = [((slice(shift, None), slice(-shift)), (slice(shift), slice(-shift, None))) for _, shift in shifts]
        for chosen in itertools.product(*halves):
            target, source = [slice(None)] * x.ndim, [slice(None)] * x.ndim
            for (dim, _), (to, where) in zip(shifts, chosen, strict=True):
                target[dim], source[dim] = to, where
            k.copy(x[tuple(source)], out[tuple(target)])

    def attrs(self, x: Any, shifts: tuple[tuple[int, int], ...]) -> Any:
        return tuple((dim, x.shape[dim] - shift) for dim, shift in shifts)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(roll, grads[0], node.op_attrs),)


class Repeat(Op):
    """The whole, repeated along each dimension; called with as many counts as there are dimensions."""

    name = "repeat"

    def infer(self, x: Any, counts: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((tuple(count * size for count, size in zip(counts, x.shape, strict=True)), x.dtype),)

    def kernel(self, k: Any, x: Any, counts: tuple[int, ...], out: Any) -> None:
        if out.size:
            pairs = zip(counts, x.shape, strict=True)
            k.copy(
                x.reshape([part for size in x.shape for part in (1, size)]),
                out.reshape([part for pair in pairs for part in pair]),
            )

    def attrs(self, x: Any, counts: tuple[int, ...]) -> Any:
        return counts, x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        counts, shape = node.op_attrs
        apart = do(reshape, grads[0], tuple(part for pair in zip(counts, shape, strict=True) for part in pair))
        return (do(sum_of, apart, tuple(range(0, 2 * len(shape), 2)), False),)


class RepeatEach(Op):
    """Each element repeated in its place along a dimension."""

    name = "repeat_interleave"

    def infer(self, x: Any, count: int, dim: int) -> tuple[Spec, ...]:
        return (((*x.shape[:dim], x.shape[dim] * count, *x.shape[dim + 1 :]), x.dtype),)

    def kernel(self, k: Any, x: Any, count: int, dim: int, out: Any) -> None:
        if out.size:
            apart = x[(*[slice(None)] * (dim + 1), None, ...)]
            k.copy(apart, out.reshape((*x.shape[: dim + 1], count, *x.shape[dim + 1 :])))

    def attrs(self, x: Any, count: int, dim: int) -> Any:
        return count, dim, x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        count, dim, shape = node.op_attrs
        return (do(sum_of, do(reshape, grads[0], (*shape[: dim + 1], count, *shape[dim + 1 :])), (dim + 1,), False),)


class Triangle(Op):
    """Zeros on one side of a diagonal of the last two dimensions."""

    upper = False

    def infer(self, x: Any, diagonal: int) -> tuple[Spec, ...]:
        if x.ndim < 2:
            raise RuntimeError(f"{self.name}: input tensor must have at least 2 dimensions")
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, diagonal: int, out: Any) -> None:
        k.triangle(x, out, diagonal=diagonal, upper=self.upper)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(self, grads[0], *node.op_attrs),)


class Tril(Triangle):
    """Zeros above a diagonal."""

    name = "tril"


class Triu(Triangle):
    """Zeros below a diagonal."""

    name = "triu"
    upper = True


# -- padding -----------------------------------------------------------------------------------------------------------


class ConstantPad(Op):
    """Dimensions made longer with a number, or shorter, at both ends.

    Called with a pair for each dimension: how many elements come before and behind; negative ones leave elements out.
    """

    name = "constant_pad_nd"
    fresh = False

    def infer(self, x: Any, pads: tuple[tuple[int, int], ...], value: Any) -> tuple[Spec, ...]:
        sizes = tuple(before + size + behind for size, (before, behind) in zip(x.shape, pads, strict=True))
        if min(sizes, default=0) < 0:
            raise RuntimeError(
                f"constant_pad_nd: The input size {list(x.shape)}, plus negative padding {[list(p) for p in pads]},"
                " resulted in a negative output size, which is invalid."
            )
        return ((sizes, x.dtype),)

    def kernel(self, k: Any, x: Any, pads: tuple[tuple[int, int], ...], value: Any, out: Any) -> None:
        k.fill(out, value)
        target = tuple(slice(max(a, 0), size - max(b, 0)) for size, (a, b) in zip(out.shape, pads, strict=True))
        source = tuple(slice(max(-a, 0), size - max(-b, 0)) for size, (a, b) in zip(x.shape, pads, strict=True))
        k.copy(x[source], out[target])

    def attrs(self, x: Any, pads: tuple[tuple[int, int], ...], value: Any) -> Any:
        return pads

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        pads, (grad,) = node.op_attrs, grads
        if min((part for pair in pads for part in pair), default=0) < 0:
            return (do(constant_pad, grad, tuple((-before, -behind) for before, behind in pads), 0),)
        shape = tuple(grad.shape)
        return (do(index, grad, tuple(slice(a, size - b) for size, (a, b) in zip(shape, pads, strict=True))),)


class PadEdges(Op):
    """Dimensions made longer with copies of their own elements.

    Called with, for some dimensions, how many elements come before and behind, and with the mode: ``"reflect"``,
    ``"replicate"`` or ``"circular"``.
    """

    name = "pad"

    def infer(self, x: Any, pads: Any, mode: str) -> tuple[Spec, ...]:
        sizes = list(x.shape)
        for dim, before, behind in pads:
            sizes[dim] += before + behind
        return ((tuple(sizes), x.dtype),)

    def kernel(self, k: Any, x: Any, pads: Any, mode: str, out: Any) -> None:
        k.pad_edges(x, out, pads=pads, mode=mode)

    def attrs(self, x: Any, pads: Any, mode: str) -> Any:
        return x.shape, pads, mode

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(pad_edges_backward, grads[0], *node.op_attrs),)


class PadEdgesBackward(Op):
    """The sums of gradients over the copies of each element."""

    name = "pad_backward"

    def infer(self, grad: Any, shape: tuple[int, ...], pads: Any, mode: str) -> tuple[Spec, ...]:
        return ((shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, shape: tuple[int, ...], pads: Any, mode: str, out: Any) -> None:
        k.pad_edges_backward(grad, out, pads=pads, mode=mode)

    def attrs(self, grad: Any, shape: tuple[int, ...], pads: Any, mode: str) -> Any:
        return pads, mode

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(pad_edges, grads[0], *node.op_attrs),)


flip, roll = Flip(), Roll()
repeat, repeat_each = Repeat(), RepeatEach()
tril, triu = Tril(), Triu()
constant_pad = ConstantPad()
pad_edges, pad_edges_backward = PadEdges(), PadEdgesBackward()
