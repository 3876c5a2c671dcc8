"""Cross-entropy of logits and probabilities of the classes."""

from __future__ import annotations

from typing import Any

from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from .cast import to_dtype
from .elementwise import add, mul, neg
from .loss import check_class_weight, class_weight, exact_dtype
from .promotion import check_floating, result_dtype
from .recompose import differentiated
from .reduce import sum
from .shape import reshape
from .softmax import log_softmax


class SoftCrossEntropy(Op):
    """The loss of each row of logits, (N, C), or place, (N, C, L), whose target is a probability of each class.

    Logits, target and one number a row are saved. Called with logits, target, weights of the classes (or None), and the
    share of the target that all classes get evenly.
    """

    name = "soft_cross_entropy"
    inputs = 3
    auxiliary = 1
    saves = (
        Slot("self", 0),
        Slot("target", 1, needed_for=(0,)),
        Slot("weight", 2),
        Slot("logsumexp", 1, output=True),
    )

    def __call__(self, logits: Any, target: Any, weight: Any = None, label_smoothing: float = 0.0) -> Any:
        dtype = result_dtype(logits._array, target._array)
        logits, target = (x if x._array.dtype == dtype else to_dtype(x, dtype) for x in (logits, target))
        return apply(self, logits, target, class_weight("cross_entropy", weight, logits), float(label_smoothing))

    def infer(self, logits: Any, target: Any, weight: Any, label_smoothing: float) -> tuple[Spec, ...]:
        check_floating("cross_entropy", logits.dtype)
        check_class_weight("cross_entropy", logits.shape[1], weight)
        rows = (logits.shape[0], *logits.shape[2:])
        return (rows, logits.dtype), (rows, exact_dtype(logits.dtype))

    def kernel(self, k: Any, logits: Any, target: Any, weight: Any, label_smoothing: float, *outs: Any) -> None:
        options = {"weight": weight, "label_smoothing": label_smoothing}
        if logits.ndim == 2:
            k.soft_cross_entropy(logits, target, *outs, **options)
            return
        for number in range(len(logits)):
            matrices = (logits[number].swapaxes(0, 1), target[number].swapaxes(0, 1))
            k.soft_cross_entropy(*matrices, *(out[number] for out in outs), **options)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        needs = node.needs_grad[:2]
        results = do(soft_cross_entropy_backward, grads[0], *saved, *node.op_attrs, needs)
        return (*(g if needed else None for g, needed in zip(results, needs, strict=True)), None)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        logits, target, weight, _ = saved
        (smoothing,) = node.op_attrs

        def shares(target: Any) -> Any:
            classes = logits._array.shape[1]
            spread = add(mul(target, 1 - smoothing), smoothing / max(classes, 1)) if smoothing else target
            if weight is None:
                return spread
            return mul(spread, reshape(weight, (classes,) + (1,) * (logits._array.ndim - 2)))

        def compose(logits: Any, target: Any) -> Any:
            return neg(sum(mul(log_softmax(logits, 1), shares(target)), (1,), False))

        if target is None:  # only the target needs a gradient, and that does not read it
            upstream = reshape(grads[0], (grads[0]._array.shape[0], 1, *grads[0]._array.shape[1:]))
            gradient = mul(mul(neg(log_softmax(logits, 1)), 1 - smoothing), upstream)
            if weight is not None:
                gradient = mul(gradient, reshape(weight, (-1,) + (1,) * (logits._array.ndim - 2)))
            return None, gradient, None
        return (*differentiated(compose, (logits, target), node.needs_grad[:2], grads[0]), None)


class SoftCrossEntropyBackward(Op):
    """The fused gradients of logits and target; what is not needed is empty."""

    name = "soft_cross_entropy_backward"
    inputs = 5
    outputs = 2

    def infer(self, grad: Any, logits: Any, *rest: Any) -> tuple[Spec, ...]:
        return tuple((logits.shape if needed else (0,), logits.dtype) for needed in rest[-1])

    def kernel(self, k: Any, grad: Any, logits: Any, target: Any, weight: Any, lse: Any, *rest: Any) -> None:
        label_smoothing, needs, *outs = rest
        wanted = [out if needed else None for out, needed in zip(outs, needs, strict=True)]
        options = {"weight": weight, "label_smoothing": label_smoothing}
        given = logits if target is None else target
        if logits.ndim == 2:
            k.soft_cross_entropy_backward(grad, logits, given, lse, *wanted, **options)
            return
        for number in range(len(logits)):
            matrices = (logits[number].swapaxes(0, 1), given[number].swapaxes(0, 1), lse[number])
            found = [None if out is None else out[number].swapaxes(0, 1) for out in wanted]
            k.soft_cross_entropy_backward(grad[number], *matrices, *found, **options)


soft_cross_entropy = SoftCrossEntropy()
soft_cross_entropy_backward = SoftCrossEntropyBackward()
