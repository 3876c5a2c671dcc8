"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

from ..record import Do, Slot, Spec
from ..whole import FewOp, apply_together
from .elementwise import add, mul, rsqrt, square, sub
from .norm_formula import affine_gradients
from .norm_small import norm_of_rows, norm_of_rows_backward
from .promotion import check_floating
from .reduce import mean
from .sum_to import sum_to


def _check_shapes(name: str, x: Any, shape: tuple[int, ...], **numbers: Any) -> None:
    if not shape or tuple(x.shape[-len(shape) :]) != shape:
        raise RuntimeError(
            f"{name}: given normalized_shape={list(shape)}, expected input with shape"
            f" [*, {', '.join(map(str, shape))}], but got input of size {list(x.shape)}"
        )
    for argument, array in numbers.items():
        if array is not None and (tuple(array.shape) != shape or array.dtype != x.dtype):
            raise RuntimeError(
                f"{name}: expected {argument} to be of shape {list(shape)} and {x.dtype}, but got"
                f" {list(array.shape)} and {array.dtype}"
            )


class LayerNorm(FewOp):
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
        return apply_together(self, x, weight, bias, tuple(shape), float(eps))

    def infer(self, x: Any, weight: Any, bias: Any, shape: tuple[int, ...], eps: float) -> tuple[Spec, ...]:
        check_floating("layer_norm", x.dtype)
        _check_shapes("layer_norm", x, shape, weight=weight, bias=bias)
        rows = ((math.prod(x.shape[: -len(shape)]),), x.dtype)
        return (x.shape, x.dtype), rows, rows

    def kernel(
        self, k: Any, x: Any, weight: Any, bias: Any, shape: Any, eps: float, out: Any, mu: Any, rstd: Any
    ) -> None:
        if self.fills((x, weight, bias, shape, eps), (out, mu, rstd)):
            return
        width = math.prod(shape)
        flat = [None if array is None else array.reshape(width) for array in (weight, bias)]
        k.layer_norm(_rows(x, mu, width), *flat, _rows(out, mu, width), mu, rstd, eps=eps)

    def small_marked(self, x: Any, weight: Any, bias: Any, shape: tuple[int, ...], eps: float) -> tuple[Any, ...]:
        return norm_of_rows(x, math.prod(shape), weight, bias, eps, True)

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
        shape, eps = node.op_attrs
        dims = tuple(range(-len(shape), 0))

        def normal(x: Any) -> Any:
            centred = sub(x, mean(x, dims, True))
            return mul(centred, rsqrt(add(mean(square(centred), dims, True), eps)))

        def total(grad: Any) -> Any:
            return do(sum_to, grad, shape)

        return affine_gradients(do, normal, saved[:2], node.needs_grad, grads[0], _as_it_is, total)


def _as_it_is(numbers: Any) -> Any:
    """A weight of the normalised dimensions broadcasts by itself."""
    return numbers


def _by_bias(do: Do, node: Any, grad: Any) -> Any:
    """The gradient of the bias where nothing else needs one, and so nothing was saved."""
    return do(sum_to, grad, node.op_attrs[0])


class LayerNormBackward(FewOp):
    """The fused gradient; results that are not needed are empty."""

    name = "native_layer_norm_backward"
    inputs = 5
    outputs = 3

    def infer(self, grad: Any, x: Any, weight: Any, mu: Any, rstd: Any, shape: Any, needs: Any) -> tuple[Spec, ...]:
        shapes = (grad.shape, shape, shape)
        return tuple((s if needed else (0,), grad.dtype) for s, needed in zip(shapes, needs, strict=True))

    def workspace(self, grad: Any, x: Any, *rest: Any) -> int:
        """Strided ones are copied first."""
        return sum(int(array.nbytes) for array in (grad, x) if not array.flags.c_contiguous)

    def kernel(
        self, k: Any, grad: Any, x: Any, weight: Any, mu: Any, rstd: Any, shape: Any, needs: Any, *outs: Any
    ) -> None:
        if self.fills((grad, x, weight, mu, rstd, shape, needs), outs):
            return
        width = math.prod(shape)
        by_x = _rows(outs[0], mu, width) if needs[0] else None
        by_numbers = [out.reshape(width) if needed else None for out, needed in zip(outs[1:], needs[1:], strict=True)]
        flat = None if weight is None else weight.reshape(width)
        k.layer_norm_backward(_rows(grad, mu, width), _rows(x, mu, width), flat, mu, rstd, by_x, *by_numbers)

    def small_marked(
        self, grad: Any, x: Any, weight: Any, mu: Any, rstd: Any, shape: Any, needs: Any
    ) -> tuple[Any, ...]:
        return norm_of_rows_backward(grad, x, weight, mu, rstd, shape, needs)


class NativeLayerNorm(LayerNorm):
    """`LayerNorm` that gives mean and reciprocal standard deviation of the rows, too; they have no gradient."""

    outputs = 3
    auxiliary = 0


class RmsNorm(FewOp):
    """Unit mean square over the last dimensions, then a scale; a number a row is saved besides the input.

    Source: Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.
    """

    name = "rms_norm"
    inputs = 2
    auxiliary = 1
    saves = (
        Slot("input", 0),
        Slot("weight", 1, needed_for=(0,)),
        Slot("result1", 1, output=True),
    )

    def __call__(self, x: Any, shape: tuple[int, ...], weight: Any, eps: float) -> Any:
        return apply_together(self, x, weight, tuple(shape), float(eps))

    def infer(self, x: Any, weight: Any, shape: tuple[int, ...], eps: float) -> tuple[Spec, ...]:
        check_floating("rms_norm", x.dtype)
        _check_shapes("rms_norm", x, shape, weight=weight)
        return (x.shape, x.dtype), ((math.prod(x.shape[: -len(shape)]),), x.dtype)

    def kernel(self, k: Any, x: Any, weight: Any, shape: Any, eps: float, out: Any, rstd: Any) -> None:
        if self.fills((x, weight, shape, eps), (out, rstd)):
            return
        width = math.prod(shape)
        flat = None if weight is None else weight.reshape(width)
        k.rms_norm(_rows(x, rstd, width), flat, _rows(out, rstd, width), rstd, eps=eps)

    def small_marked(self, x: Any, weight: Any, shape: tuple[int, ...], eps: float) -> tuple[Any, ...]:
        out, _, rstd = norm_of_rows(x, math.prod(shape), weight, None, eps, False)
        return out, rstd

    def workspace(self, x: Any, *rest: Any) -> int:
        """A strided input is copied first."""
        return 0 if x.flags.c_contiguous else int(x.nbytes)

    def attrs(self, x: Any, weight: Any, shape: tuple[int, ...], eps: float) -> Any:
        return shape, eps

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(rms_norm_backward, grads[0], *saved, node.op_attrs[0], node.needs_grad)
        return tuple(result if needed else None for result, needed in zip(results, node.needs_grad, strict=True))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, eps = node.op_attrs
        dims = tuple(range(-len(shape), 0))

        def normal(x: Any) -> Any:
            return mul(x, rsqrt(add(mean(square(x), dims, True), eps)))

        def total(grad: Any) -> Any:
            return do(sum_to, grad, shape)

        needs = (*node.needs_grad, False)
        return affine_gradients(do, normal, saved[:2], needs, grads[0], _as_it_is, total)[:2]


class RmsNormBackward(FewOp):
    """The fused gradient; results that are not needed are empty."""

    name = "rms_norm_backward"
    inputs = 4
    outputs = 2

    def infer(self, grad: Any, x: Any, weight: Any, rstd: Any, shape: Any, needs: Any) -> tuple[Spec, ...]:
        return tuple((s if needed else (0,), grad.dtype) for s, needed in zip((grad.shape, shape), needs, strict=True))

    def workspace(self, grad: Any, x: Any, *rest: Any) -> int:
        """Strided ones are copied first."""
        return sum(int(array.nbytes) for array in (grad, x) if not array.flags.c_contiguous)

    def kernel(
        self, k: Any, grad: Any, x: Any, weight: Any, rstd: Any, shape: Any, needs: Any, by_x: Any, by_weight: Any
    ) -> None:
        if self.fills((grad, x, weight, rstd, shape, needs), (by_x, by_weight)):
            return
        width = math.prod(shape)
        flat = None if weight is None else weight.reshape(width)
        k.rms_norm_backward(
            _rows(grad, rstd, width),
            _rows(x, rstd, width),
            flat,
            rstd,
            _rows(by_x, rstd, width) if needs[0] else None,
            by_weight.reshape(width) if needs[1] else None,
        )

    def small_marked(self, grad: Any, x: Any, weight: Any, rstd: Any, shape: Any, needs: Any) -> tuple[Any, ...]:
        return norm_of_rows_backward(grad, x, weight, None, rstd, shape, (*needs, False))[:2]


def _rows(x: Any, numbers: Any, width: int) -> Any:
    """An array as (rows, width), with a number a row."""
    return x.reshape(len(numbers), width)


layer_norm = LayerNorm()
native_layer_norm = NativeLayerNorm()
layer_norm_backward = LayerNormBackward()
rms_norm = RmsNorm()
rms_norm_backward = RmsNormBackward()
