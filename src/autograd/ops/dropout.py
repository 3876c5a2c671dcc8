"""Dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ..dispatch import Op
from ..random import Generator
from ..record import Do, Slot, Spec
from ..whole import apply_alone
from .activation import mask_of_bits
from .activation_lines import drawn, masked_slope
from .elementwise import mul
from .marks import keep_by_bits
from .promotion import check_floating


class Dropout(Op):
    """Zero elements with probability ``p`` and scale the others by ``1 / (1 - p)``; one bit an element is saved.

    Source: Srivastava et al., Dropout, JMLR 2014.
    """

    name = "native_dropout"
    auxiliary = 1
    saves = (Slot("mask", 1, output=True),)

    def __call__(self, x: Any, p: float, generator: Generator | None = None) -> Any:
        return apply_alone(self, x, float(p), *drawn(x._array.size, generator))

    def infer(self, x: Any, p: float, key: int, counter: int) -> tuple[Spec, ...]:
        if not 0.0 <= p <= 1.0:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        check_floating("dropout", x.dtype)
        return (x.shape, x.dtype), (((x.size + 7) // 8,), np.dtype(np.uint8))

    def small_marked(self, x: Any, p: float, key: int, counter: int) -> tuple[Any, ...]:
        ((size,), dtype) = self.infer(x, p, key, counter)[1]
        bits = np.empty(size, dtype)
        backend("cpu").dropout_mask(bits, size=x.size, p=p, key=key, counter=counter)
        return _few_kept(x, bits, p), bits

    def kernel(self, k: Any, x: Any, p: float, key: int, counter: int, out: Any, mask: Any) -> None:
        k.dropout(x, out, mask, p=p, key=key, counter=counter)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(dropout_backward, grads[0], saved[0], node.op_attrs[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        grad = grads[0]
        p = node.op_attrs[0]
        kept = do(mask_of_bits, saved[0], tuple(grad.shape), grad.dtype)
        return (do(mul, grad, do(mul, kept, 0.0 if p == 1.0 else 1.0 / (1.0 - p))),)


class DropoutBackward(Op):
    """The gradient where the mask has a bit, scaled."""

    name = "native_dropout_backward"
    inputs = 2

    def small(self, grad: Any, mask: Any, p: float) -> Any:
        return _few_kept(grad, mask, p)

    def infer(self, grad: Any, mask: Any, p: float) -> tuple[Spec, ...]:
        return ((grad.shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, mask: Any, p: float, out: Any) -> None:
        k.dropout_backward(grad, mask, out, p=p)


def _few_kept(x: Any, bits: Any, p: float) -> Any:
    """A small array where bits are set, scaled."""
    kept = keep_by_bits(x, bits)
    return kept if p == 1 else np.multiply(kept, 1 / (1 - p), kept)


class NativeDropout(Dropout):
    """`Dropout` that gives the packed mask, too."""

    outputs = 2
    auxiliary = 0


class AlphaDropout(Op):
    """Dropout to what selu tends to on the left, then a scale and a shift that keep mean and variance.

    Source: Klambauer, Unterthiner, Mayr and Hochreiter, Self-Normalizing Neural Networks, 2017.
    """

    name = "alpha_dropout"
    auxiliary = 1
    saves = (Slot("mask", 1, output=True),)

    def infer(self, x: Any, p: float, key: int, counter: int) -> tuple[Spec, ...]:
        check_floating("alpha_dropout", x.dtype)
        return (x.shape, x.dtype), (((x.size + 7) // 8,), np.dtype(np.uint8))

    def kernel(self, k: Any, x: Any, p: float, key: int, counter: int, out: Any, mask: Any) -> None:
        scale, shift, dropped = alpha_numbers(p)
        k.alpha_dropout(x, out, mask, p=p, key=key, counter=counter, scale=scale, shift=shift, dropped=dropped)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(masked_slope, grads[0], saved[0], alpha_numbers(node.op_attrs[0])[0], 0.0),)


def alpha_numbers(p: float) -> tuple[float, float, float]:
    """What elements that are kept are scaled and shifted by, and what the others become."""
    alpha = 1.7580993408473766  # of selu, times its scale
    scale = 1.0 / float(np.sqrt((alpha * alpha * p + 1.0) * (1.0 - p)))
    return scale, alpha * scale * p, alpha * scale * (p - 1.0)


dropout_backward = DropoutBackward()
dropout = Dropout()
native_dropout = NativeDropout()
alpha_dropout = AlphaDropout()
