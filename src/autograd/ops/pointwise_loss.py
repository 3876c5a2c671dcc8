"""Losses of input and target, element by element, reduced as they are computed; only what was given is saved."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ..record import Do, Slot, Spec
from ..whole import FewOp, apply_together
from .activation import sigmoid
from .cast import to_dtype
from .elementwise import abs as absolute
from .elementwise import add, div, eq, exp, gt, log, lt, mul, neg, sign, sub, where
from .exponential import log1p
from .extremes import clamp, minimum
from .promotion import check_floating, result_dtype

_INPUTS = (Slot("self", 0), Slot("target", 1), Slot("weight", 2), Slot("pos_weight", 3))


class PointwiseLoss(FewOp):
    """The loss of each element, their sum or their mean.

    Called with the input, the target (of the same shape), weights of the elements and of positive targets (or None),
    the one number that the loss has, and the reduction.

    Attributes:
        kind: what the kernels call it.
        fused: the op of its gradients.
    """

    inputs = 4
    saves = _INPUTS
    kind = ""
    fused: PointwiseLossBackward

    def __call__(
        self,
        x: Any,
        target: Any,
        weight: Any = None,
        pos_weight: Any = None,
        parameter: float = 0.0,
        reduction: str = "mean",
    ) -> Any:
        for name, value in (("weight", weight), ("pos_weight", pos_weight)):
            if value is not None and value._requires_grad:
                raise RuntimeError(
                    f"The function '{self.name}' is not differentiable with respect to argument {name!r}. This input"
                    " cannot have requires_grad True; detach() it."
                )
        given = [x, target, weight, pos_weight]
        if x._array.dtype != target._array.dtype or weight is not None or pos_weight is not None:
            dtype = result_dtype(x._array, target._array)
            given = [t if t is None or t._array.dtype == dtype else to_dtype(t, dtype) for t in given]
        return apply_together(self, *given, float(parameter), reduction)

    def infer(self, x: Any, target: Any, weight: Any, pos_weight: Any, parameter: float, reduction: str) -> Any:
        check_floating(self.name, x.dtype)
        if x.dtype.kind == "c":
            raise NotImplementedError(f"{self.name}: not implemented for complex numbers, got {x.dtype}")
        if x.shape != target.shape:
            raise RuntimeError(
                f"{self.name}: expected input and target of one shape, got {list(x.shape)} and {list(target.shape)}"
            )
        return ((x.shape if reduction == "none" else (), x.dtype),)

    def kernel(self, k: Any, x: Any, target: Any, weight: Any, pos_weight: Any, *rest: Any) -> None:
        parameter, reduction, out = rest
        options = {"kind": self.kind, "parameter": parameter, "reduction": reduction}
        k.pointwise_loss(x, target, weight, pos_weight, out, **options)

    def small_marked(self, x: Any, *rest: Any) -> tuple[Any, ...]:
        out = np.empty(x.shape if rest[-1] == "none" else (), x.dtype)
        self.kernel(backend("cpu"), x, *rest, out)
        return (out,)

    def attrs(self, x: Any, *rest: Any) -> Any:
        parameter, reduction = rest[-2:]
        return parameter, 1.0 / x.size if reduction == "mean" and x.size else 1.0

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        wanted = node.needs_grad[:2]
        results = do(self.fused, grads[0], *_complete(saved), *node.op_attrs, wanted)
        return (*(g if needed else None for g, needed in zip(results, wanted, strict=True)), None, None)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, target, weight, pos_weight = _complete(saved)
        parameter, scale = node.op_attrs
        grad = grads[0] if scale == 1.0 else do(mul, grads[0], scale)
        found: list[Any] = []
        for slope, needed in zip((self.slope, self.target_slope), node.needs_grad, strict=False):
            if not needed:
                found.append(None)
                continue
            gradient = slope(do, x, target, pos_weight, parameter)
            if weight is not None:
                gradient = do(mul, gradient, weight)
            found.append(do(mul, gradient, grad))
        return (*found, None, None)

    def slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        """The derivative of the loss by the input."""
        raise NotImplementedError

    def target_slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        """The derivative of the loss by the target: here of a loss of the difference."""
        return do(neg, self.slope(do, x, target, pos_weight, parameter))


def _complete(saved: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*saved, *(None,) * (4 - len(saved)))


class PointwiseLossBackward(FewOp):
    """The fused gradients of input and target; what is not needed is empty."""

    inputs = 5
    outputs = 2
    decisive = 1
    kind = ""

    def infer(self, grad: Any, x: Any, target: Any, *rest: Any) -> tuple[Spec, ...]:
        like = target if x is None else x
        return tuple((like.shape if needed else (0,), like.dtype) for needed in rest[-1])

    def small_marked(self, grad: Any, x: Any, *rest: Any) -> tuple[Any, ...]:
        outs = tuple([np.empty(x.shape, x.dtype) if needed else None for needed in rest[-1]])
        self.kernel(backend("cpu"), grad, x, *rest, *outs)
        return outs

    def kernel(self, k: Any, grad: Any, x: Any, target: Any, weight: Any, pos_weight: Any, *rest: Any) -> None:
        parameter, scale, needs, *outs = rest
        wanted = [out if needed else None for out, needed in zip(outs, needs, strict=True)]
        options = {"kind": self.kind, "parameter": parameter, "scale": scale}
        k.pointwise_loss_backward(grad, x, target, weight, pos_weight, *wanted, **options)


def _fused(loss: str, kind: str) -> PointwiseLossBackward:
    members = {"name": f"{loss}_backward", "kind": kind, "__doc__": f"The fused gradients of ``{loss}``."}
    made = type(f"{loss.title().replace('_', '')}Backward", (PointwiseLossBackward,), members)()
    assert isinstance(made, PointwiseLossBackward)
    return made


class MseLoss(PointwiseLoss):
    """The squared difference."""

    name = "mse_loss"
    kind = "mse"
    fused = _fused(name, kind)

    def slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        return do(mul, do(sub, x, target), 2.0)


class L1Loss(PointwiseLoss):
    """The absolute difference."""

    name = "l1_loss"
    kind = "l1"
    fused = _fused(name, kind)

    def slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        return do(sign, do(sub, x, target))


class HuberLoss(PointwiseLoss):
    """Half of the squared difference up to ``delta``, from there on a line of slope ``delta``."""

    name = "huber_loss"
    kind = "huber"
    fused = _fused(name, kind)

    def slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        difference = do(sub, x, target)
        line = do(mul, do(sign, difference), parameter)
        return do(where, do(lt, do(absolute, difference), parameter), difference, line)


class SmoothL1Loss(HuberLoss):
    """The Huber loss, divided by its ``delta``, which here is ``beta``."""

    name = "smooth_l1_loss"
    kind = "smooth_l1"
    fused = _fused(name, kind)

    def slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        return do(div, super().slope(do, x, target, pos_weight, parameter), parameter)


class BinaryCrossEntropy(PointwiseLoss):
    """``-(t * log(x) + (1 - t) * log(1 - x))`` with logarithms of at least -100."""

    name = "binary_cross_entropy"
    kind = "bce"
    fused = _fused(name, kind)

    def slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        variance = do(clamp, do(mul, do(sub, 1.0, x), x), 1e-12, None)
        return do(div, do(sub, x, target), variance)

    def target_slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        rest = do(clamp, do(log1p, do(neg, x)), -100.0, None)
        return do(sub, rest, do(clamp, do(log, x), -100.0, None))


class BinaryCrossEntropyWithLogits(PointwiseLoss):
    """`BinaryCrossEntropy` of ``sigmoid(x)``; ``pos_weight`` multiplies what the target's positive part gives."""

    name = "binary_cross_entropy_with_logits"
    kind = "bce_logits"
    fused = _fused(name, kind)

    def slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        probability = do(sigmoid, x)
        if pos_weight is None:
            return do(sub, probability, target)
        positive = do(mul, pos_weight, target)
        total = do(sub, do(add, positive, 1.0), target)
        return do(sub, do(mul, probability, total), positive)

    def target_slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        if pos_weight is None:
            return do(neg, x)
        away = do(where, do(gt, x, 0.0), do(neg, x), x)
        logarithm = do(sub, do(minimum, x, do(mul, x, 0.0)), do(log1p, do(exp, away)))
        return do(sub, do(mul, logarithm, do(sub, 1.0, pos_weight)), x)


class KlDiv(PointwiseLoss):
    """``t * (log(t) - x)``, or with a parameter that is not 0 ``exp(t) * (t - x)``: the target is a logarithm then."""

    name = "kl_div"
    kind = "kl_div"
    fused = _fused(name, kind)

    def slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        return do(neg, do(exp, target) if parameter else target)

    def target_slope(self, do: Do, x: Any, target: Any, pos_weight: Any, parameter: float) -> Any:
        if parameter:
            return do(mul, do(exp, target), do(add, do(sub, target, x), 1.0))
        zero = do(eq, target, 0.0)
        logarithm = do(where, zero, 0.0, do(log, do(where, zero, 1.0, target)))
        return do(sub, do(add, logarithm, 1.0), x)


mse_loss = MseLoss()
l1_loss = L1Loss()
huber_loss = HuberLoss()
smooth_l1_loss = SmoothL1Loss()
binary_cross_entropy = BinaryCrossEntropy()
binary_cross_entropy_with_logits = BinaryCrossEntropyWithLogits()
kl_div = KlDiv()
