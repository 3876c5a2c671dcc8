"""Activation functions."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from ...kernels import backend
from ...kernels.numpy_.exponentials import exp_of_product
from ..dispatch import Op
from ..record import Do, Slot, Spec
from ..whole import apply_alone
from .elementwise import add, exp, mul, square, sub
from .marks import keep_by_bits
from .pointwise import Unary
from .promotion import check_floating

_SELF = Slot("self", 0)
_RESULT = Slot("result", 0, output=True)
# Beside a small array a Python number takes as long as two steps, an array without dimensions as long as a number of C.
ONE = {np.dtype(dtype): np.ones((), dtype) for dtype in (np.float32, np.float64)}


class FusedBackward(Op):
    """A fused gradient: of the incoming gradient and one saved value. It is only run where nothing is recorded."""

    inputs = 2

    def infer(self, grad: Any, saved: Any, *attrs: Any) -> tuple[Spec, ...]:
        return ((grad.shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, saved: Any, *attrs_and_out: Any) -> None:
        *attrs, out = attrs_and_out
        getattr(k, self.name)(grad, saved, out, **self.keywords(*attrs))

    def keywords(self, *attrs: Any) -> dict[str, Any]:
        """The attributes as the kernel takes them."""
        return {}


class TanhBackward(FusedBackward):
    """``grad * (1 - y**2)``."""

    name = "tanh_backward"

    def small(self, grad: Any, y: Any) -> Any:
        slope = y * y
        np.subtract(ONE[y.dtype], slope, slope)
        return np.multiply(slope, grad, slope)


class Tanh(Unary):
    """The hyperbolic tangent."""

    name = "tanh"
    ufunc = np.tanh
    saves = (_RESULT,)
    complex_saved = "conjugated"

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        if grads[0].dtype.kind == "c":
            return self.formula(do, node, saved, *grads)
        return (do(tanh_backward, grads[0], saved[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(mul, grads[0], do(sub, 1.0, do(square, saved[0]))),)


def small_sigmoid(x: Any, order: Literal["K", "C"] = "K") -> Any:
    """``1 / (1 + exp(-x))`` of a small array."""
    y = np.empty_like(x, order=order)
    with np.errstate(over="ignore"):  # far left exp(-x) is infinite and its reciprocal the right 0
        exp_of_product(x, -1.0, y)
    np.add(y, 1, y)
    return np.reciprocal(y, y)


class SigmoidBackward(FusedBackward):
    """``grad * y * (1 - y)``."""

    name = "sigmoid_backward"

    def small(self, grad: Any, y: Any) -> Any:
        slope = np.subtract(ONE[y.dtype], y)
        np.multiply(slope, y, slope)
        return np.multiply(slope, grad, slope)


class Sigmoid(Unary):
    """``1 / (1 + exp(-x))``."""

    name = "sigmoid"
    saves = (_RESULT,)
    complex_saved = "conjugated"
    small = staticmethod(small_sigmoid)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        if grads[0].dtype.kind == "c":
            return self.formula(do, node, saved, *grads)
        return (do(sigmoid_backward, grads[0], saved[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (y,) = saved
        return (do(mul, grads[0], do(mul, y, do(sub, 1.0, y))),)


class SiluBackward(FusedBackward):
    """The fused gradient of `Silu`."""

    name = "silu_backward"

    def small(self, grad: Any, x: Any) -> Any:
        y, one = small_sigmoid(x), ONE[x.dtype]
        slope = np.subtract(one, y)
        np.multiply(slope, x, slope)
        np.add(slope, one, slope)
        np.multiply(slope, y, slope)
        return np.multiply(slope, grad, slope)


class Silu(Unary):
    """``x * sigmoid(x)``."""

    name = "silu"
    to_float = False
    lowest = 2
    saves = (_SELF,)

    def small(self, x: Any, order: Literal["K", "C"] = "K") -> Any:
        y = np.empty_like(x, order=order)
        with np.errstate(over="ignore", invalid="ignore"):
            exp_of_product(x, -1.0, y)
            np.add(y, ONE[x.dtype], y)
            return np.divide(x, y, y)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(silu_backward, grads[0], saved[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (x,) = saved
        y = do(sigmoid, x)
        slope = do(mul, y, do(add, 1.0, do(mul, x, do(sub, 1.0, y))))
        return (do(mul, grads[0], slope),)


class ReluBackward(FusedBackward):
    """The gradient where a packed mask has a bit."""

    name = "relu_backward"

    def small(self, grad: Any, bits: Any) -> Any:
        return keep_by_bits(grad, bits)


class Relu(Op):
    """``max(x, 0)``; one bit an element is saved."""

    name = "relu"
    auxiliary = 1
    saves = (Slot("mask", 1, output=True),)
    flat = True

    def __call__(self, x: Any) -> Any:
        return apply_alone(self, x)

    def small_marked(self, x: Any) -> tuple[Any, ...]:
        out = np.maximum(x, 0, order="C")
        return out, np.packbits(out != 0)  # of NaN too

    def infer(self, x: Any) -> tuple[Spec, ...]:
        if x.dtype == bool:
            raise RuntimeError("Boolean inputs not supported for relu")
        return (x.shape, x.dtype), (((x.size + 7) // 8,), np.dtype(np.uint8))

    def kernel(self, k: Any, x: Any, out: Any, mask: Any) -> None:
        k.relu(x, out, mask)

    def attrs(self, x: Any) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(relu_backward, grads[0], saved[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,) = grads
        return (do(mul, grad, do(mask_of_bits, saved[0], tuple(grad.shape), grad.dtype)),)


class MaskOfBits(Op):
    """Ones and zeros of a packed mask."""

    name = "mask_of_bits"
    differentiable = False

    def infer(self, bits: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Spec, ...]:
        return ((shape, dtype),)

    def kernel(self, k: Any, bits: Any, shape: tuple[int, ...], dtype: np.dtype[Any], out: Any) -> None:
        k.unpack_mask(bits, out)


class GeluBackward(FusedBackward):
    """The fused gradient of `Gelu`."""

    name = "gelu_backward"

    def small(self, grad: Any, x: Any, approximate: str) -> Any:
        grad_x = np.empty(x.shape, x.dtype)
        backend("cpu").gelu_backward(grad, x, grad_x, approximate=approximate)
        return grad_x

    def keywords(self, *attrs: Any) -> dict[str, Any]:
        return {"approximate": attrs[0]}


class Gelu(Op):
    """``x * Phi(x)`` with the normal distribution function or its tanh approximation.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """

    name = "gelu"
    saves = (_SELF,)

    def __call__(self, x: Any, approximate: str) -> Any:
        if approximate not in ("none", "tanh"):
            raise RuntimeError(f"gelu: approximate argument must be either none or tanh, got {approximate!r}")
        return apply_alone(self, x, approximate)

    def small(self, x: Any, approximate: str) -> Any:
        out = np.empty(x.shape, x.dtype)
        backend("cpu").gelu(x, out, approximate=approximate)
        return out

    def infer(self, x: Any, approximate: str) -> tuple[Spec, ...]:
        check_floating("gelu", x.dtype)
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, approximate: str, out: Any) -> None:
        k.gelu(x, out, approximate=approximate)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(gelu_backward, grads[0], saved[0], node.op_attrs[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (x,) = saved
        slope = _tanh_slope(do, x) if node.op_attrs[0] == "tanh" else _erf_slope(do, x)
        return (do(mul, grads[0], slope),)


def _tanh_slope(do: Do, x: Any) -> Any:
    """The derivative of the tanh form."""
    c, a = float(np.sqrt(2.0 / np.pi)), 0.044715
    squared = do(square, x)
    t = do(tanh, do(mul, do(mul, x, do(add, do(mul, squared, a), 1.0)), c))
    inner = do(mul, do(add, do(mul, squared, 3 * a), 1.0), c)
    rise = do(mul, do(mul, x, do(sub, 1.0, do(square, t))), inner)
    return do(mul, do(add, do(add, t, 1.0), rise), 0.5)


def _erf_slope(do: Do, x: Any) -> Any:
    """The derivative of the exact form: ``Phi(x) + x * phi(x)``."""
    density = do(mul, do(exp, do(mul, do(square, x), -0.5)), float(1.0 / np.sqrt(2.0 * np.pi)))
    distribution = do(mul, do(add, do(erf, do(mul, x, float(np.sqrt(0.5)))), 1.0), 0.5)
    return do(add, distribution, do(mul, x, density))


class ErfBackward(FusedBackward):
    """``grad * exp(-x**2) * 2 / sqrt(pi)``."""

    name = "erf_backward"

    def small(self, grad: Any, x: Any) -> Any:
        with np.errstate(over="ignore"):
            slope = np.square(x)
            exp_of_product(slope, -1.0, slope)
        np.multiply(slope, 2 / math.sqrt(math.pi), slope)
        return np.multiply(slope, grad, slope)


class Erf(Unary):
    """The error function."""

    name = "erf"
    saves = (_SELF,)

    def small(self, x: Any, order: Literal["K", "C"] = "C") -> Any:
        out = np.empty(x.shape, x.dtype)
        backend("cpu").erf(x, out)
        return out

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(erf_backward, grads[0], saved[0]),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        slope = do(mul, do(exp, do(mul, do(square, saved[0]), -1.0)), float(2.0 / np.sqrt(np.pi)))
        return (do(mul, grads[0], slope),)


tanh_backward = TanhBackward()
tanh = Tanh()
sigmoid_backward = SigmoidBackward()
sigmoid = Sigmoid()
silu_backward = SiluBackward()
silu = Silu()
relu_backward = ReluBackward()
mask_of_bits = MaskOfBits()
relu = Relu()
gelu_backward = GeluBackward()
gelu = Gelu()
erf_backward = ErfBackward()
erf = Erf()
