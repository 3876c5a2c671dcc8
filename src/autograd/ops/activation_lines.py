"""Activation functions made of straight lines: one bit an element is saved, which says on which line it lies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ..dispatch import Op
from ..random import Generator, chosen
from ..record import Do, Slot, Spec
from ..whole import apply_alone
from .marks import bools_of, keep_by_bits
from .promotion import category, check_floating

_MASK = Slot("mask", 1, output=True)


class MaskedSlope(Op):
    """``grad * inside`` where a packed mask has a bit, else ``grad * outside``: linear, so it is its own gradient."""

    name = "masked_slope"
    inputs = 2
    saves = (Slot("mask", 1),)

    def small(self, grad: Any, bits: Any, inside: float, outside: float) -> Any:
        if outside == 0:
            return keep_by_bits(grad if inside == 1 else grad * inside, bits)
        slopes = np.where(bools_of(bits, grad), inside, outside).astype(grad.dtype)
        return np.multiply(grad, slopes, slopes)

    def infer(self, grad: Any, mask: Any, inside: float, outside: float) -> tuple[Spec, ...]:
        return ((grad.shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, mask: Any, inside: float, outside: float, out: Any) -> None:
        k.masked_slope(grad, mask, out, inside=inside, outside=outside)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(masked_slope, grads[0], saved[0], *node.op_attrs), None


class Lines(Op):
    """An activation of straight lines; its attributes are numbers.

    Attributes:
        keywords: what the kernel calls them.
        integers: whether it takes integers.
    """

    auxiliary = 1
    saves = (_MASK,)
    flat = True
    keywords: tuple[str, ...] = ()
    integers = False

    def __call__(self, x: Any, *numbers: float) -> Any:
        return apply_alone(self, x, *[float(number) for number in numbers])

    def infer(self, x: Any, *numbers: float) -> tuple[Spec, ...]:
        if not self.integers or category(x.dtype) in (0, 3):
            check_floating(self.name, x.dtype)
        if category(x.dtype) == 3:
            raise NotImplementedError(f"{self.name}: not implemented for complex numbers, got {x.dtype}")
        return (x.shape, x.dtype), (((x.size + 7) // 8,), np.dtype(np.uint8))

    def kernel(self, k: Any, x: Any, *numbers_and_outs: Any) -> None:
        *numbers, out, mask = numbers_and_outs
        if x.dtype.kind in "iu":
            numbers = [int(number) for number in numbers]
        getattr(k, self.name)(x, out, mask, **dict(zip(self.keywords, numbers, strict=True)))

    def slopes(self, *numbers: float) -> tuple[float, float]:
        """The slopes where the bits are set, and elsewhere."""
        return 1.0, 0.0

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(masked_slope, grads[0], saved[0], *self.slopes(*node.op_attrs)),)


class Hardtanh(Lines):
    """``x`` held between two numbers."""

    name = "hardtanh"
    keywords = ("low", "high")
    integers = True

    def infer(self, x: Any, *numbers: float) -> tuple[Spec, ...]:
        if x.dtype == bool:
            raise RuntimeError("Bool inputs not supported for hardtanh")
        return super().infer(x, *numbers)


class Threshold(Lines):
    """``x`` above a threshold, another number elsewhere."""

    name = "threshold"
    keywords = ("threshold", "value")
    integers = True


class Hardshrink(Lines):
    """0 where ``x`` is as near to 0 as a number, ``x`` elsewhere."""

    name = "hardshrink"
    keywords = ("lambd",)


class Softshrink(Lines):
    """``x`` drawn nearer to 0 by a number, and 0 where it is nearer than that."""

    name = "softshrink"
    keywords = ("lambd",)

    def infer(self, x: Any, *numbers: float) -> tuple[Spec, ...]:
        if numbers[0] < 0:
            raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {numbers[0]:g}.")
        return super().infer(x, *numbers)


class LeakyRelu(Lines):
    """``x`` where it is positive, ``slope * x`` elsewhere.

    Source: Maas, Hannun and Ng, Rectifier Nonlinearities Improve Neural Network Acoustic Models, 2013.
    """

    name = "leaky_relu"
    keywords = ("slope",)

    def small_marked(self, x: Any, slope: float) -> tuple[Any, ...]:
        keep = np.greater(x, 0)
        out = np.multiply(x, slope, order="C")
        np.copyto(out, x, where=keep)
        return out, np.packbits(keep)

    def slopes(self, *numbers: float) -> tuple[float, float]:
        return 1.0, numbers[0]


class Hardsigmoid(Lines):
    """``(x + 3) / 6`` held between 0 and 1."""

    name = "hardsigmoid"

    def slopes(self, *numbers: float) -> tuple[float, float]:
        return 1.0 / 6.0, 0.0


class Rrelu(Op):
    """Leaky relu with a slope drawn for each element; drawn again in backward.

    Source: Xu et al., Empirical Evaluation of Rectified Activations in Convolutional Network, 2015.
    """

    name = "rrelu_with_noise"
    auxiliary = 1
    saves = (_MASK,)
    flat = True

    def infer(self, x: Any, *numbers: Any) -> tuple[Spec, ...]:
        check_floating("rrelu", x.dtype)
        return (x.shape, x.dtype), (((x.size + 7) // 8,), np.dtype(np.uint8))

    def kernel(self, k: Any, x: Any, lower: float, upper: float, key: int, counter: int, out: Any, mask: Any) -> None:
        k.rrelu(x, out, mask, lower=lower, upper=upper, key=key, counter=counter)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(rrelu_slope, grads[0], saved[0], *node.op_attrs),)


class RreluSlope(Op):
    """The gradient times the slopes that were drawn: linear, so it is its own gradient."""

    name = "rrelu_slope"
    inputs = 2
    saves = (Slot("mask", 1),)

    def infer(self, grad: Any, mask: Any, *numbers: Any) -> tuple[Spec, ...]:
        return ((grad.shape, grad.dtype),)

    def kernel(
        self, k: Any, grad: Any, mask: Any, lower: float, upper: float, key: int, counter: int, out: Any
    ) -> None:
        k.rrelu_backward(grad, mask, out, lower=lower, upper=upper, key=key, counter=counter)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(rrelu_slope, grads[0], saved[0], *node.op_attrs), None


def drawn(size: int, generator: Generator | None) -> tuple[int, int]:
    """Key and counter for a draw of as many elements."""
    source = chosen(generator)
    return source.take(backend("cpu").counter_steps(size))


masked_slope = MaskedSlope()
hardtanh = Hardtanh()
threshold = Threshold()
hardshrink = Hardshrink()
softshrink = Softshrink()
leaky_relu = LeakyRelu()
hardsigmoid = Hardsigmoid()
rrelu = Rrelu()
rrelu_slope = RreluSlope()
