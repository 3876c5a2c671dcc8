"""Copies with elements in another order, repeated, or left out; none of them keeps a value for backward."""

from __future__ import annotations

import functools
import itertools
from typing import Any, TypeAlias

import numpy as np

from ..dispatch import Op
from ..placed import Placed
from ..record import Do, Spec
from ..whole import apply_alone
from .reduce import sum as sum_of
from .shape import index, reshape

Index: TypeAlias = tuple[slice, ...]


class _Moved(Op):
    """An op on one tensor and attributes."""

    def __call__(self, x: Any, *attrs: Any) -> Any:
        return apply_alone(self, x, *attrs)


class Flip(_Moved):
    """Some dimensions in reverse order."""

    name = "flip"

    def infer(self, x: Any, dims: tuple[int, ...]) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, dims: tuple[int, ...], out: Any) -> None:
        k.copy(x[(*[slice(None, None, -1) if dim in dims else slice(None) for dim in range(x.ndim)], ...)], out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(flip, grads[0], *node.op_attrs),)


class Roll(_Moved):
    """Elements shifted along dimensions; what leaves at an end comes in at the other.

    Called with pairs of a dimension and a shift from 0 up to its size.
    """

    name = "roll"
    scatters = True

    def infer(self, x: Any, shifts: tuple[tuple[int, int], ...]) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, shifts: tuple[tuple[int, int], ...], out: Any) -> None:
        for target, source in _rolled_parts(x.ndim, shifts):
            k.copy(x[source], out[target])

    def attrs(self, x: Any, shifts: tuple[tuple[int, int], ...]) -> Any:
        return tuple((dim, x.shape[dim] - shift) for dim, shift in shifts)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,) = grads
        return (Placed(grad, grad.shape, _rolled_parts(grad.ndim, node.op_attrs), covers=True),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(roll, grads[0], node.op_attrs),)


@functools.lru_cache(maxsize=64)
def _rolled_parts(ndim: int, shifts: tuple[tuple[int, int], ...]) -> tuple[tuple[Index, Index], ...]:
    """Which parts of a rolled array are which parts of the original, as pairs of indices."""
    halves = [((slice(shift, None), slice(-shift)), (slice(shift), slice(-shift, None))) for _, shift in shifts]
    pairs = []
    for chosen in itertools.product(*halves):
        target, source = [slice(None)] * ndim, [slice(None)] * ndim
        for (dim, _), (to, where) in zip(shifts, chosen, strict=True):
            target[dim], source[dim] = to, where
        pairs.append((tuple(target), tuple(source)))
    return tuple(pairs)


class Repeat(_Moved):
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
        apart: list[int] = []
        copies: list[int] = []
        for count, size in zip(counts, shape, strict=True):
            if count != 1:
                copies.append(len(apart))
                apart.append(count)
            apart.append(size)
        if not copies:  # for `sum` no dimensions are all of them
            apart, copies = [1, *apart], [0]
        return (do(sum_of, do(reshape, grads[0], tuple(apart)), tuple(copies), False),)


class RepeatEach(_Moved):
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


class Triangle(_Moved):
    """Zeros on one side of a diagonal of the last two dimensions."""

    upper = False

    def small(self, x: Any, diagonal: int) -> Any:
        self.infer(x, diagonal)  # at least two dimensions
        return np.where(_triangle(*x.shape[-2:], diagonal, self.upper), x, x.dtype.type(0))

    def infer(self, x: Any, diagonal: int) -> tuple[Spec, ...]:
        if x.ndim < 2:
            raise RuntimeError(f"{self.name}: input tensor must have at least 2 dimensions")
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, diagonal: int, out: Any) -> None:
        k.triangle(x, out, diagonal=diagonal, upper=self.upper)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(self, grads[0], *node.op_attrs),)


@functools.lru_cache(maxsize=64)
def _triangle(rows: int, columns: int, diagonal: int, upper: bool) -> Any:
    """Which elements of a small matrix stay."""
    below = np.tri(rows, columns, diagonal - upper, dtype=np.bool_)
    return ~below if upper else below


class Tril(Triangle):
    """Zeros above a diagonal."""

    name = "tril"


class Triu(Triangle):
    """Zeros below a diagonal."""

    name = "triu"
    upper = True


# -- padding -----------------------------------------------------------------------------------------------------------


class ConstantPad(_Moved):
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


class PadEdges(_Moved):
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
