"""An activation times a gate, and an activation of a sum with a bias: nothing is kept in between."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels.numpy_.exponentials import exp_of_product
from ..dispatch import Op, apply
from ..record import Do, Slot, Spec, broadcast_shapes, normalize_dim
from ..whole import apply_alone
from .activation import gelu, relu, sigmoid, sigmoid_backward, silu, small_sigmoid, tanh, tanh_backward
from .activation_curves import hardswish, mish
from .activation_lines import masked_slope
from .elementwise import add, mul, square, sub
from .promotion import check_floating
from .recompose import differentiated
from .shape import split
from .sum_to import reduced, sum_to

_PLAIN: dict[str, Any] = {
    "gelu": lambda x: gelu(x, "none"),
    "gelu_tanh": lambda x: gelu(x, "tanh"),
    "hardswish": hardswish,
    "mish": mish,
    "relu": relu,
    "sigmoid": sigmoid,
    "silu": silu,
    "tanh": tanh,
}


def check_activation(name: str, activation: str) -> None:
    """Raise ``ValueError`` for an activation that has no fused form."""
    if activation not in _PLAIN:
        raise ValueError(f"{name}: expected one of {', '.join(_PLAIN)} as activation, got {activation!r}")


class Gated(Op):
    """``activation(x) * gate``; saves the two and computes the activation again in backward.

    Source: Shazeer, GLU Variants Improve Transformer, 2020.
    """

    name = "gated"
    inputs = 2
    saves = (Slot("self", 0), Slot("gate", 1, needed_for=(0,)))

    def infer(self, x: Any, gate: Any, activation: str) -> tuple[Spec, ...]:
        check_activation("gated", activation)
        check_floating("gated", x.dtype)
        if x.shape != gate.shape or x.dtype != gate.dtype:
            raise RuntimeError(
                f"gated: expected two tensors of one shape and dtype, got {list(x.shape)} of {x.dtype} and"
                f" {list(gate.shape)} of {gate.dtype}"
            )
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, gate: Any, activation: str, out: Any) -> None:
        k.gated(x, gate, out, activation=activation)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(gated_backward, grads[0], *saved, node.op_attrs[0], node.needs_grad)
        return tuple(result if needed else None for result, needed in zip(results, node.needs_grad, strict=True))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (activation,), (x, gate) = node.op_attrs, saved
        if not node.needs_grad[0]:
            return None, do(mul, grads[0], do(_PLAIN[activation], x))
        if not node.needs_grad[1]:
            (by_x,) = differentiated(_PLAIN[activation], (x,), (True,), do(mul, grads[0], gate))
            return by_x, None
        return differentiated(lambda x, gate: mul(_PLAIN[activation](x), gate), saved, node.needs_grad, grads[0])


class GatedBackward(Op):
    """The fused gradients; results that are not needed are empty."""

    name = "gated_backward"
    inputs = 3
    outputs = 2

    def infer(self, grad: Any, x: Any, gate: Any, activation: str, needs: Any) -> tuple[Spec, ...]:
        return tuple((grad.shape if needed else (0,), grad.dtype) for needed in needs)

    def kernel(self, k: Any, grad: Any, x: Any, gate: Any, activation: str, needs: Any, *outs: Any) -> None:
        wanted = [out if needed else None for out, needed in zip(outs, needs, strict=True)]
        k.gated_backward(grad, x, gate, *wanted, activation=activation)


class Glu(Op):
    """The first half along a dimension times the sigmoid of the second; saves the input.

    Source: Dauphin et al., Language Modeling with Gated Convolutional Networks, 2017.
    """

    name = "glu"
    saves = (Slot("self", 0),)

    def __call__(self, x: Any, dim: int = -1) -> Any:
        if x._array.ndim == 0:
            raise RuntimeError("glu does not support 0-dimensional tensors")
        dim = normalize_dim("glu", dim, x._array.ndim)
        size = x._array.shape[dim]
        if size % 2:
            raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
        return apply_alone(self, x, dim)

    def small(self, x: Any, dim: int) -> Any:
        first, second = _halves(x, dim)
        odds = np.empty(second.shape, second.dtype)
        with np.errstate(over="ignore"):
            exp_of_product(second, -1.0, odds)
        np.add(odds, 1, odds)
        return np.divide(first, odds, odds)

    def infer(self, x: Any, dim: int) -> tuple[Spec, ...]:
        check_floating("glu", x.dtype)
        size = x.shape[dim]
        return (((*x.shape[:dim], size // 2, *x.shape[dim + 1 :]), x.dtype),)

    def kernel(self, k: Any, x: Any, dim: int, out: Any) -> None:
        first, second = _halves(x, dim)
        k.gated(second, first, out, activation="sigmoid")

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(glu_backward, grads[0], saved[0], *node.op_attrs),)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (dim,) = node.op_attrs

        def compose(x: Any) -> Any:
            first, second = split(x, [x.shape[dim] // 2] * 2, dim)
            return mul(first, sigmoid(second))

        return differentiated(compose, saved, node.needs_grad, grads[0])


class GluBackward(Op):
    """The fused gradient of `Glu`."""

    name = "glu_backward"
    inputs = 2

    def small(self, grad: Any, x: Any, dim: int) -> Any:
        first, second = _halves(x, dim)
        by_x = np.empty(x.shape, x.dtype)
        by_first, by_second = _halves(by_x, dim)
        gate = small_sigmoid(second, order="C")
        np.multiply(gate, grad, by_first)
        slope = np.subtract(1, gate)
        np.multiply(slope, by_first, slope)
        np.multiply(slope, first, by_second)
        return by_x

    def infer(self, grad: Any, x: Any, dim: int) -> tuple[Spec, ...]:
        return ((x.shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, x: Any, dim: int, out: Any) -> None:
        first, second = _halves(x, dim)
        by_first, by_second = _halves(out, dim)
        k.gated_backward(grad, second, first, by_second, by_first, activation="sigmoid")


def _halves(x: Any, dim: int) -> tuple[Any, Any]:
    half = x.shape[dim] // 2
    before = (slice(None),) * dim
    return x[(*before, slice(half))], x[(*before, slice(half, None))]


# -- bias and activation -----------------------------------------------------------------------------------------------


class _Biased(Op):
    """``activation(x + bias)``; the bias broadcasts."""

    inputs = 2

    def __call__(self, x: Any, bias: Any, activation: str) -> Any:
        return apply(self, x, bias, activation)

    def infer(self, x: Any, bias: Any, activation: str) -> tuple[Spec, ...]:
        check_activation("bias_activation", activation)
        check_floating("bias_activation", x.dtype)
        if x.dtype != bias.dtype:
            raise RuntimeError(f"bias_activation: expected a bias of the input's dtype {x.dtype}, got {bias.dtype}")
        if broadcast_shapes("bias_activation", x.shape, bias.shape) != x.shape:
            raise RuntimeError(
                f"bias_activation: expected a bias that broadcasts to {list(x.shape)}, got {list(bias.shape)}"
            )
        return ((x.shape, x.dtype),)

    def attrs(self, x: Any, bias: Any, activation: str) -> Any:
        return x.shape, bias.shape, activation

    def spread(self, do: Do, node: Any, grad: Any) -> tuple[Any, ...]:
        """The gradients at both operands from the one at their sum."""
        need_x, need_bias = node.needs_grad
        if need_x and need_bias:  # a copy where the shapes are the same: neither may be added to in place of the other
            return grad, do(sum_to, grad, node.op_attrs[1])
        return (grad, None) if need_x else (None, reduced(do, grad, node.op_attrs[1]))


class BiasActivation(_Biased):
    """Where the derivative reads the sum: input and bias are saved, and the sum is made again in backward."""

    name = "bias_activation"
    saves = (Slot("self", 0), Slot("bias", 1))

    def kernel(self, k: Any, x: Any, bias: Any, activation: str, out: Any) -> None:
        k.bias_activation(x, bias, out, activation=activation)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return self.spread(do, node, do(bias_activation_backward, grads[0], *saved, node.op_attrs[2]))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        plain = _PLAIN[node.op_attrs[2]]
        return differentiated(lambda x, bias: plain(add(x, bias)), saved, node.needs_grad, grads[0])


class BiasActivationBackward(Op):
    """The gradient at the sum."""

    name = "bias_activation_backward"
    inputs = 3

    def infer(self, grad: Any, x: Any, bias: Any, activation: str) -> tuple[Spec, ...]:
        return ((grad.shape, grad.dtype),)

    def kernel(self, k: Any, grad: Any, x: Any, bias: Any, activation: str, out: Any) -> None:
        k.bias_activation_backward(grad, x, bias, out, activation=activation)


class BiasRelu(_Biased):
    """Relu of a sum; one bit an element is saved."""

    name = "bias_relu"
    auxiliary = 1
    saves = (Slot("mask", 1, output=True),)
    flat = True

    def infer(self, x: Any, bias: Any, activation: str) -> tuple[Spec, ...]:
        return (*super().infer(x, bias, activation), (((x.size + 7) // 8,), np.dtype(np.uint8)))

    def kernel(self, k: Any, x: Any, bias: Any, activation: str, out: Any, mask: Any) -> None:
        k.add(x, bias, out)
        k.relu(out, out, mask)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return self.spread(do, node, do(masked_slope, grads[0], saved[0], 1.0, 0.0))


class BiasResult(_Biased):
    """Tanh or sigmoid of a sum; the result is saved."""

    name = "bias_result"
    saves = (Slot("result", 0, output=True),)

    def kernel(self, k: Any, x: Any, bias: Any, activation: str, out: Any) -> None:
        k.add(x, bias, out)
        getattr(k, activation)(out, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        fused = tanh_backward if node.op_attrs[2] == "tanh" else sigmoid_backward
        return self.spread(do, node, do(fused, grads[0], saved[0]))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (y,) = saved
        slope = do(sub, 1.0, do(square, y)) if node.op_attrs[2] == "tanh" else do(mul, y, do(sub, 1.0, y))
        return self.spread(do, node, do(mul, grads[0], slope))


def bias_activation(x: Any, bias: Any, activation: str) -> Any:
    """``activation(x + bias)`` by the record that saves the least for it."""
    check_activation("bias_activation", activation)
    return _BIASED.get(activation, biased)(x, bias, activation)


gated = Gated()
gated_backward = GatedBackward()
glu = Glu()
glu_backward = GluBackward()
biased = BiasActivation()
bias_activation_backward = BiasActivationBackward()
_BIASED: dict[str, Any] = {"relu": BiasRelu(), "tanh": BiasResult(), "sigmoid": BiasResult()}
