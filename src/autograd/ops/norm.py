"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from .elementwise import add, mul, rsqrt, square, sub
from .promotion import check_floating
from .recompose import differentiated
from .reduce import mean
from .sum_to import sum_to


class LayerNorm(Op):
    """Zero mean and unit variance over the last dimensions; two numbers a row are saved besides the input.

    Source: Ba, Kiros and Hinton, Layer Normalization, 2016.
    """

    name = "native_layer_norm"
    inputs = 3
    auxiliary = 2
    saves = (
        Slot("input", 0, needed_for=(0, 1)),
        Slot("weight", 1, needed_for=(0,)),
        Slot("bias", 2, needed_for=()),
        Slot("result1", 1, output=True, needed_for=(0, 1)),
        Slot("result2", 2, output=True, needed_for=(0, 1)),
    )

    def __call__(self, x: Any, shape: tuple[int, ...], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        return apply(self, x, weight, bias, tuple(shape), float(eps))

    def infer(self, x: Any, weight: Any, bias: Any, shape: tuple[int, ...], eps: float) -> tuple[Spec, ...]:
        check_floating("layer_norm", x.dtype)
        if not shape or tuple(x.shape[-len(shape) :]) != shape:
            raise RuntimeError(
                f"layer_norm: given normalized_shape={list(shape)}, expected input with shape"
                f" [*, {', '.join(map(str, shape))}], but got input of size {list(x.shape)}"
            )
        for name, array in (("weight", weight), ("bias", bias)):
            if array is not None and (tuple(array.shape) != shape or array.dtype != x.dtype):
                raise RuntimeError(
                    f"layer_norm: expected {name} to be of shape {list(shape)} and {x.dtype}, but got"
                    f" {list(array.shape)} and {array.dtype}"
                )
        rows = ((math.prod(x.shape[: -len(shape)]),), x.dtype)
        return (x.shape, x.dtype), rows, rows

    def kernel(
        self, k: Any, x: Any, weight: Any, bias: Any, shape: Any, eps: float, out: Any, mu: Any, rstd: Any
    ) -> None:
        width = math.prod(shape)
        flat = [None if array is None else array.reshape(width) for array in (weight, bias)]
        k.layer_norm(x.reshape(-1, width), *flat, out.reshape(-1, width), mu, rstd, eps=eps)

    def workspace(self, x: Any, *rest: Any) -> int:
        """A strided input is copied first."""
        return 0 if x.flags.c_contiguous else int(x.nbytes)

    def attrs(self, x: Any, weight: Any, bias: Any, shape: tuple[int, ...], eps: float) -> Any:
        return shape, eps

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight, _, mu, rstd = saved
        if x is None:
            return None, None, _by_bias(do, node, grads[0])
        results = do(layer_norm_backward, grads[0], x, weight, mu, rstd, node.op_attrs[0], node.needs_grad)
        return tuple(result if needed else None for result, needed in zip(results, node.needs_grad, strict=True))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight, bias = saved[:3]
        shape, eps = node.op_attrs
        if x is None:
            return None, None, _by_bias(do, node, grads[0])
        dims = tuple(range(-len(shape), 0))

        def compose(x: Any, weight: Any, bias: Any) -> Any:
            centred = sub(x, mean(x, dims, True))
            y = mul(centred, rsqrt(add(mean(square(centred), dims, True), eps)))
            y = y if weight is None else mul(y, weight)
            return y if bias is None else add(y, bias)

        return differentiated(compose, (x, weight, bias), node.needs_grad, grads[0])


def _by_bias(do: Do, node: Any, grad: Any) -> Any:
    """The gradient of the bias where nothing else needs one, and so nothing was saved."""
    return do(sum_to, grad, node.op_attrs[0])


class LayerNormBackward(Op):
    """The fused gradient; results that are not needed are empty."""

    name = "native_layer_norm_backward"
    inputs = 5
    outputs = 3

    def infer(self, grad: Any, x: Any, weight: Any, mu: Any, rstd: Any, shape: Any, needs: Any) -> tuple[Spec, ...]:
        shapes = (grad.shape, shape, shape)
        return tuple((s if needed else (0,), grad.dtype) for s, needed in zip(shapes, needs, strict=True))

    def kernel(
        self, k: Any, grad: Any, x: Any, weight: Any, mu: Any, rstd: Any, shape: Any, needs: Any, *outs: Any
    ) -> None:
        width = math.prod(shape)
        views = (outs[0].reshape(-1, width), outs[1].reshape(-1), outs[2].reshape(-1))
        wanted = [view if needed else None for view, needed in zip(views, needs, strict=True)]
        rows = None if x is None else x.reshape(-1, width)
        flat = None if weight is None else weight.reshape(width)
        k.layer_norm_backward(grad.reshape(-1, width), rows, flat, mu, rstd, *wanted)


layer_norm = LayerNorm()
layer_norm_backward = LayerNormBackward()
