"""Smooth activation functions beside those of `activation`, and parametric relu."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...kernels.numpy_.exponentials import exp_of_product, few_expm1_of_negative, few_log1p_of_positive
from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from ..whole import apply_alone
from .activation import ONE, FusedBackward, sigmoid, tanh
from .elementwise import abs, add, exp, ge, gt, le, mul, reciprocal, square, sub, where
from .promotion import category, check_floating
from .sum_to import reduced

# As in the kernels: less is lost in the rounding of 1 in float32, where the exponential of the second is no infinity.
# Beside a small array an array without dimensions takes less time than a Python number.
_NOTHING, _NEVER_INFINITE = 2.0**-26, np.array(80.0, np.float32)
_SELF = Slot("self", 0)
_RESULT = Slot("result", 0, output=True)


class Curve(Op):
    """A smooth activation; its attributes are numbers.

    Attributes:
        keywords: what the kernel calls them.
    """

    saves = (_SELF,)
    keywords: tuple[str, ...] = ()

    def __call__(self, x: Any, *numbers: float) -> Any:
        return apply_alone(self, x, *[float(number) for number in numbers])

    def infer(self, x: Any, *numbers: float) -> tuple[Spec, ...]:
        check_floating(self.name, x.dtype)
        if category(x.dtype) == 3:
            raise NotImplementedError(f"{self.name}: not implemented for complex numbers, got {x.dtype}")
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, *numbers_and_out: Any) -> None:
        *numbers, out = numbers_and_out
        getattr(k, self.name)(x, out, **dict(zip(self.keywords, numbers, strict=True)))

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(_backward_of[self.name], grads[0], saved[0], *node.op_attrs),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], self.slope(do, saved[0], *node.op_attrs)),)

    def slope(self, do: Do, saved: Any, *numbers: float) -> Any:
        """The derivative, of what was saved, with differentiable ops."""
        raise NotImplementedError


class _CurveBackward(FusedBackward):
    """A fused gradient whose attributes are those of the activation."""

    names: tuple[str, ...] = ()

    def keywords(self, *attrs: Any) -> dict[str, Any]:
        return dict(zip(self.names, attrs, strict=True))


class Elu(Curve):
    """``scale * x`` where it is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``; saves the result.

    Source: Clevert, Unterthiner and Hochreiter, Fast and Accurate Deep Network Learning by Exponential Linear Units,
    2015.
    """

    name = "elu"
    saves = (_RESULT,)
    keywords = ("alpha", "scale", "input_scale")

    def small(self, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
        low = np.minimum(x, 0, order="C")
        if alpha == scale == input_scale == 1:
            return np.maximum(x, few_expm1_of_negative(low), out=low)
        high = np.maximum(x, 0)
        few_expm1_of_negative(low if input_scale == 1 else np.multiply(low, input_scale, low))
        if alpha * scale != 1:
            np.multiply(low, alpha * scale, low)
        return np.add(low, high if scale == 1 else np.multiply(high, scale, high), low)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        _check_sign(*node.op_attrs)
        return super().backward(do, node, saved, *grads)

    def slope(self, do: Do, saved: Any, *numbers: float) -> Any:
        alpha, scale, input_scale = numbers
        _check_sign(alpha, scale, input_scale)
        return do(where, do(le, saved, 0.0), do(mul, do(add, saved, alpha * scale), input_scale), scale)


def _check_sign(alpha: float, scale: float, input_scale: float) -> None:
    if alpha * scale * input_scale < 0:
        raise RuntimeError(
            f"elu_: the gradient of the form that writes in place is not defined for a negative alpha, got {alpha}: the"
            " result does not tell where the input was negative. Use the form that does not."
        )


class EluBackward(_CurveBackward):
    """The fused gradient of `Elu`."""

    name = "elu_backward"
    names = Elu.keywords

    def small(self, grad: Any, y: Any, alpha: float, scale: float, input_scale: float) -> Any:
        if alpha == scale == input_scale == 1:
            slope = np.fmin(y, 0)
            return np.multiply(np.add(slope, 1, slope), grad, slope)
        slope = y + alpha * scale
        if input_scale != 1:
            np.multiply(slope, input_scale, slope)
        np.copyto(slope, scale, where=np.logical_not(y <= 0))
        return np.multiply(slope, grad, slope)


class Softplus(Curve):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` itself where ``beta * x`` is above a threshold."""

    name = "softplus"
    keywords = ("beta", "threshold")

    def small(self, x: Any, beta: float, threshold: float) -> Any:
        if beta == 1 and _is_straight(x, threshold):
            y = np.minimum(x, _NEVER_INFINITE, order="C")
            with np.errstate(over="ignore"):
                exp_of_product(y, 1.0, y)
            return np.maximum(x, few_log1p_of_positive(y), out=y)
        scaled = np.multiply(x, beta, order="C")
        high, straight = np.maximum(scaled, 0), scaled > threshold
        with np.errstate(over="ignore"):
            exp_of_product(np.absolute(scaled, scaled), -1.0, scaled)
        np.add(few_log1p_of_positive(scaled), high, scaled)
        np.multiply(scaled, 1 / beta, scaled)
        np.copyto(scaled, x, where=straight)
        return scaled

    def slope(self, do: Do, saved: Any, *numbers: float) -> Any:
        beta, threshold = numbers
        scaled = do(mul, saved, beta)
        return do(where, do(gt, scaled, threshold), 1.0, do(sigmoid, scaled))


def _is_straight(x: Any, threshold: float) -> bool:
    """Whether beyond the threshold rounding alone makes softplus the straight line: the kernel's question."""
    return x.dtype == np.float32 and math.exp(-max(threshold, 0.0)) < _NOTHING


class SoftplusBackward(_CurveBackward):
    """The fused gradient of `Softplus`."""

    name = "softplus_backward"
    names = Softplus.keywords

    def small(self, grad: Any, x: Any, beta: float, threshold: float) -> Any:
        odds = np.empty_like(x)
        straight = None if _is_straight(x, threshold) else x * -beta < -threshold
        with np.errstate(over="ignore"):
            exp_of_product(x, -beta, odds)
        np.add(odds, ONE[odds.dtype], odds)
        if straight is not None:
            np.copyto(odds, 1, where=straight)
        return np.divide(grad, odds, odds)


class LogSigmoid(Curve):
    """The logarithm of the sigmoid; saves the result."""

    name = "log_sigmoid"
    saves = (_RESULT,)

    def slope(self, do: Do, saved: Any, *numbers: float) -> Any:
        return do(sub, 1.0, do(exp, saved))


class LogSigmoidBackward(_CurveBackward):
    """The fused gradient of `LogSigmoid`."""

    name = "log_sigmoid_backward"


class Mish(Curve):
    """``x * tanh(log(1 + exp(x)))``.

    Source: Misra, Mish: A Self Regularized Non-Monotonic Activation Function, 2019.
    """

    name = "mish"

    def slope(self, do: Do, saved: Any, *numbers: float) -> Any:
        t = do(tanh, do(softplus, saved, 1.0, 20.0))
        rise = do(mul, do(mul, saved, do(sigmoid, saved)), do(sub, 1.0, do(square, t)))
        return do(add, t, rise)


class MishBackward(_CurveBackward):
    """The fused gradient of `Mish`."""

    name = "mish_backward"


class Softsign(Curve):
    """``x / (1 + abs(x))``."""

    name = "softsign"

    def slope(self, do: Do, saved: Any, *numbers: float) -> Any:
        return do(square, do(reciprocal, do(add, do(abs, saved), 1.0)))


class SoftsignBackward(_CurveBackward):
    """The fused gradient of `Softsign`."""

    name = "softsign_backward"


class Hardswish(Curve):
    """``x * (x + 3) / 6`` between -3 and 3, 0 left and ``x`` right of them.

    Source: Howard et al., Searching for MobileNetV3, 2019.
    """

    name = "hardswish"

    def slope(self, do: Do, saved: Any, *numbers: float) -> Any:
        middle = do(add, do(mul, saved, 1.0 / 3.0), 0.5)
        return do(where, do(ge, saved, 3.0), 1.0, do(where, do(le, saved, -3.0), 0.0, middle))


class HardswishBackward(_CurveBackward):
    """The fused gradient of `Hardswish`."""

    name = "hardswish_backward"


class Prelu(Op):
    """``x`` where it is positive, else ``x`` times the weight of its channel, which is dimension 1.

    Source: He et al., Delving Deep into Rectifiers, 2015.
    """

    name = "prelu"
    inputs = 2
    saves = (_SELF, Slot("weight", 1, needed_for=(0,)))
    flat = True

    def __call__(self, x: Any, weight: Any) -> Any:
        return apply(self, x, weight)

    def infer(self, x: Any, weight: Any) -> tuple[Spec, ...]:
        check_floating("prelu", x.dtype)
        if x.dtype != weight.dtype:
            raise RuntimeError(f"prelu: Type promoting not supported. Got {x.dtype} and {weight.dtype}")
        if weight.ndim > 1:
            raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
        channels = x.shape[1] if x.ndim > 1 else 1
        if weight.size != 1 and weight.size != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.size} and"
                f" channel size = {channels}."
            )
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, weight: Any, out: Any) -> None:
        shape = _by_channels(x.shape, weight.size)
        k.prelu(x.reshape(shape), weight.reshape(-1), out.reshape(shape))

    def workspace(self, x: Any, weight: Any) -> int:
        """A strided input is copied first."""
        return 0 if x.flags.c_contiguous else int(x.nbytes)

    def attrs(self, x: Any, weight: Any) -> Any:
        return (weight.shape,)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(prelu_backward, grads[0], *saved, node.op_attrs[0], node.needs_grad)
        return tuple(result if needed else None for result, needed in zip(results, node.needs_grad, strict=True))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (x, weight), (shape,) = grads, saved, node.op_attrs
        positive = do(gt, x, 0.0)
        by_x = by_weight = None
        dims = len(x.shape)
        sizes = (1, math.prod(shape), *(1,) * (dims - 2)) if dims > 1 else (1,) * dims
        if node.needs_grad[0]:
            by_x = do(where, positive, grad, do(mul, grad, weight.reshape(sizes)))
        if node.needs_grad[1]:
            by_weight = reduced(do, do(where, positive, 0.0, do(mul, grad, x)), sizes).reshape(shape)
        return by_x, by_weight


def _by_channels(shape: tuple[int, ...], channels: int) -> tuple[int, int, int]:
    """An array of a shape as (outer, channels, inner)."""
    if channels == 1:
        return 1, 1, math.prod(shape)
    return shape[0], channels, math.prod(shape[2:])


class PreluBackward(Op):
    """The fused gradients of `Prelu`; results that are not needed are empty."""

    name = "prelu_backward"
    inputs = 3
    outputs = 2

    def infer(self, grad: Any, x: Any, weight: Any, shape: Any, needs: Any) -> tuple[Spec, ...]:
        return (grad.shape if needs[0] else (0,), grad.dtype), (shape if needs[1] else (0,), grad.dtype)

    def workspace(self, grad: Any, x: Any, *rest: Any) -> int:
        """Strided ones are copied first."""
        return sum(int(array.nbytes) for array in (grad, x) if not array.flags.c_contiguous)

    def kernel(self, k: Any, grad: Any, x: Any, weight: Any, shape: Any, needs: Any, by_x: Any, by_weight: Any) -> None:
        sizes = _by_channels(x.shape, math.prod(shape))
        k.prelu_backward(
            grad.reshape(sizes),
            x.reshape(sizes),
            None if weight is None else weight.reshape(-1),
            by_x.reshape(sizes) if needs[0] else None,
            by_weight.reshape(-1) if needs[1] else None,
        )


elu = Elu()
softplus = Softplus()
log_sigmoid = LogSigmoid()
mish = Mish()
softsign = Softsign()
hardswish = Hardswish()
prelu = Prelu()
prelu_backward = PreluBackward()
_backward_of: dict[str, Op] = {
    "elu": EluBackward(),
    "softplus": SoftplusBackward(),
    "log_sigmoid": LogSigmoidBackward(),
    "mish": MishBackward(),
    "softsign": SoftsignBackward(),
    "hardswish": HardswishBackward(),
}
