"""Local response norm, and the sum over neighbouring channels that it consists of."""

from __future__ import annotations

import math
from typing import Any

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from .elementwise import add, mul, pow, square
from .promotion import check_floating
from .recompose import differentiated


def _flat(x: Any) -> Any:
    """An array (samples, channels, *) as (samples, channels, places)."""
    return x.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _copied(x: Any) -> int:
    """Bytes of the copy that is made of a strided input."""
    return 0 if x.flags.c_contiguous else int(x.nbytes)


class WindowSum(Op):
    """Sums over runs of channels: linear, and its gradient is the same with the two sides exchanged."""

    name = "window_sum"

    def infer(self, x: Any, before: int, after: int) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, before: int, after: int, out: Any) -> None:
        k.window_sum(_flat(x), _flat(out), before=before, after=after)

    def workspace(self, x: Any, *rest: Any) -> int:
        return _copied(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        before, after = node.op_attrs
        return (do(window_sum, grads[0], after, before),)


class LocalResponseNorm(Op):
    """``x / (k + alpha * mean of x**2 over the channels around it) ** beta``; saves the input.

    Source: Krizhevsky, Sutskever and Hinton, ImageNet Classification with Deep Convolutional Neural Networks, 2012.
    """

    name = "local_response_norm"
    saves = (Slot("self", 0),)

    def __call__(self, x: Any, size: int, alpha: float, beta: float, k: float) -> Any:
        return apply(self, x, int(size), float(alpha), float(beta), float(k))

    def infer(self, x: Any, size: int, alpha: float, beta: float, k: float) -> tuple[Spec, ...]:
        check_floating("local_response_norm", x.dtype)
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, size: int, alpha: float, beta: float, shift: float, out: Any) -> None:
        k.local_response_norm(_flat(x), _flat(out), size=size, alpha=alpha, beta=beta, k=shift)

    def workspace(self, x: Any, *rest: Any) -> int:
        return _copied(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(local_response_norm_backward, grads[0], saved[0], *node.op_attrs),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        size, alpha, beta, k = node.op_attrs

        def compose(x: Any) -> Any:
            total = apply(window_sum, square(x), size // 2, (size - 1) // 2)
            return mul(x, pow(add(mul(total, alpha / size), k), -beta))

        return differentiated(compose, saved, (True,), grads[0])


class LocalResponseNormBackward(Op):
    """The fused gradient."""

    name = "local_response_norm_backward"
    inputs = 2

    def infer(self, grad: Any, x: Any, *numbers: Any) -> tuple[Spec, ...]:
        return ((grad.shape, grad.dtype),)

    def workspace(self, grad: Any, x: Any, *rest: Any) -> int:
        return _copied(grad) + _copied(x)

    def kernel(self, k: Any, grad: Any, x: Any, size: int, alpha: float, beta: float, shift: float, out: Any) -> None:
        k.local_response_norm_backward(_flat(grad), _flat(x), _flat(out), size=size, alpha=alpha, beta=beta, k=shift)


window_sum = WindowSum()
local_response_norm = LocalResponseNorm()
local_response_norm_backward = LocalResponseNormBackward()
