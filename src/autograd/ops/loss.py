"""Cross-entropy, of logits and of a linear layer whose logits never exist all at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import backend
from ...memory import CPU, META
from ...saved_tensors.state import current
from ..dispatch import Op, apply
from ..record import Do, Slot, Spec
from ..variable import Variable
from .cast import constant, copy_array_to
from .elementwise import mul
from .linalg import linear
from .promotion import check_floating
from .recompose import differentiated
from .reduce import log_softmax, sum


def checked_targets(name: str, rows: int, classes: int, targets: Any, ignore_index: int) -> None:
    """Raise what PyTorch raises for class numbers that do not fit.

    Raises:
        RuntimeError: if they are no integers.
        ValueError: if there are not as many as rows.
        IndexError: if one is out of range.
    """
    if targets.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: expected target class numbers of an integer type, got {targets.dtype}")
    if targets.size != rows:
        raise ValueError(f"{name}: Expected input batch_size ({rows}) to match target batch_size ({targets.size}).")
    wrong = (targets != ignore_index) & ((targets < 0) | (targets >= classes))
    if bool(wrong.any()):
        bad = int(targets[wrong][0])
        raise IndexError(f"{name}: Target {bad} is out of bounds: there are {classes} classes (0 to {classes - 1})")


class CrossEntropy(Op):
    """The loss of each row of logits; the logits and one number a row are saved."""

    name = "cross_entropy"
    inputs = 2
    auxiliary = 1
    saves = (Slot("self", 0), Slot("target", 1), Slot("logsumexp", 1, output=True))

    def __call__(self, logits: Any, targets: Any, ignore_index: int = -100) -> Any:
        return apply(self, logits, targets, ignore_index)

    def infer(self, logits: Any, targets: Any, ignore_index: int) -> tuple[Spec, ...]:
        check_floating(self.name, logits.dtype)
        checked_targets(self.name, logits.shape[0], logits.shape[1], targets, ignore_index)
        rows = (logits.shape[:1], logits.dtype)
        return rows, rows

    def kernel(self, k: Any, logits: Any, targets: Any, ignore_index: int, losses: Any, lse: Any) -> None:
        k.cross_entropy(logits, targets, losses, lse, ignore_index=ignore_index)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(cross_entropy_backward, grads[0], *saved, *node.op_attrs), None

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        logits, targets, _ = saved
        (ignore_index,) = node.op_attrs

        def compose(logits: Any) -> Any:
            return _row_losses(logits, targets, ignore_index)

        return (*differentiated(compose, (logits,), node.needs_grad[:1], grads[0]), None)


def _row_losses(logits: Any, targets: Any, ignore_index: int) -> Any:
    """The same with plain ops: minus the log-probability of each target, 0 for those that are ignored."""
    rows, classes = logits._array.shape
    chosen = np.zeros((rows, classes), logits._array.dtype)
    numbers = copy_array_to(targets._array, CPU, "temporary")[0]
    counted = np.flatnonzero(numbers != ignore_index)
    chosen[counted, numbers[counted]] = -1.0
    weights = constant(chosen, logits._storage.device)
    return sum(mul(log_softmax(logits, 1), weights), (1,), False)


class CrossEntropyBackward(Op):
    """The fused gradient of the logits."""

    name = "cross_entropy_backward"
    inputs = 4

    def infer(self, grad: Any, logits: Any, targets: Any, lse: Any, ignore_index: int) -> tuple[Spec, ...]:
        return ((logits.shape, logits.dtype),)

    def kernel(self, k: Any, grad: Any, logits: Any, targets: Any, lse: Any, ignore_index: int, out: Any) -> None:
        k.cross_entropy_backward(grad, logits, targets, lse, out, ignore_index=ignore_index)


class LinearCrossEntropy(Op):
    """The loss of each row of ``x @ weight.T + bias``, computed a chunk of rows at a time.

    The logits are computed again in backward, so that no more than a chunk of them ever exists.

    Source: Wijmans et al., Cut Your Losses in Large-Vocabulary Language Models, 2024 (the idea; here
    in the chunked form).
    """

    name = "linear_cross_entropy"
    inputs = 4
    auxiliary = 1
    saves = (
        Slot("input", 0),
        Slot("weight", 1),
        Slot("bias", 2),
        Slot("target", 3),
        Slot("logsumexp", 1, output=True),
    )

    def __call__(self, x: Any, weight: Any, bias: Any, targets: Any, ignore_index: int = -100) -> Any:
        return apply(self, x, weight, bias, targets, ignore_index)

    def infer(self, x: Any, weight: Any, bias: Any, targets: Any, ignore_index: int) -> tuple[Spec, ...]:
        check_floating(self.name, x.dtype)
        linear.infer(x, weight, bias)
        checked_targets(self.name, x.shape[0], weight.shape[0], targets, ignore_index)
        rows = (x.shape[:1], x.dtype)
        return rows, rows

    def kernel(self, k: Any, x: Any, weight: Any, bias: Any, targets: Any, ignore_index: int, *outs: Any) -> None:
        k.linear_cross_entropy(x, weight, bias, targets, *outs, ignore_index=ignore_index)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(linear_cross_entropy_backward, grads[0], *saved, *node.op_attrs, node.needs_grad)
        return (*(g if needed else None for g, needed in zip(results, node.needs_grad, strict=False)), None)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight, bias, targets, _ = saved
        (ignore_index,) = node.op_attrs

        def compose(x: Any, weight: Any, bias: Any) -> Any:
            return _row_losses(linear(x, weight, bias), targets, ignore_index)

        return (*differentiated(compose, (x, weight, bias), node.needs_grad[:3], grads[0]), None)


class LinearCrossEntropyBackward(Op):
    """The gradients of input, weight and bias; those that are not needed are empty."""

    name = "linear_cross_entropy_backward"
    inputs = 6
    outputs = 3

    def infer(self, grad: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> tuple[Spec, ...]:
        needs = rest[-1]
        shapes = (x.shape, weight.shape, weight.shape[:1])
        return tuple((shape if needed else (0,), x.dtype) for shape, needed in zip(shapes, needs, strict=False))

    def kernel(self, k: Any, grad: Any, x: Any, weight: Any, bias: Any, targets: Any, lse: Any, *rest: Any) -> None:
        ignore_index, needs, *outs = rest
        wanted = [out if needed else None for out, needed in zip(outs, needs, strict=False)]
        k.linear_cross_entropy_backward(grad, x, weight, bias, targets, lse, *wanted, ignore_index=ignore_index)


class LinearCrossEntropyLoss(Op):
    """``scale`` times the sum of the losses of the rows, with the gradients computed while the logits are there.

    What a pass reads is the gradients of input, weight and bias, up to the gradient of the result, which is one number.
    The inputs are kept for second derivatives only.
    """

    name = "linear_cross_entropy_loss"
    inputs = 4
    consumes_saved = True
    auxiliary = 3
    saves = (
        Slot("grad_input", 1, output=True, needed_for=(0,)),
        Slot("grad_weight", 2, output=True, needed_for=(1,)),
        Slot("grad_bias", 3, output=True, needed_for=(2,)),
        Slot("input", 0),
        Slot("weight", 1),
        Slot("bias", 2),
        Slot("target", 3),
    )

    def __call__(self, x: Any, weight: Any, bias: Any, targets: Any, scale: float, ignore_index: int = -100) -> Any:
        recording = current().grad_enabled
        wanted = tuple(recording and isinstance(t, Variable) and t._requires_grad for t in (x, weight, bias))
        return apply(self, x, weight, bias, targets, float(scale), ignore_index, wanted)

    def infer(self, x: Any, weight: Any, bias: Any, targets: Any, *attrs: Any) -> tuple[Spec, ...]:
        _, ignore_index, wanted = attrs
        check_floating(self.name, x.dtype)
        linear.infer(x, weight, bias)
        checked_targets(self.name, x.shape[0], weight.shape[0], targets, ignore_index)
        shapes = (x.shape, weight.shape, weight.shape[:1])
        grads = tuple((shape if want else (0,), x.dtype) for shape, want in zip(shapes, wanted, strict=True))
        return (((), x.dtype), *grads)

    def kernel(self, k: Any, x: Any, weight: Any, bias: Any, targets: Any, *rest: Any) -> None:
        scale, ignore_index, wanted, out, *grads = rest
        outs = [grad if want else None for grad, want in zip(grads, wanted, strict=True)]
        k.linear_cross_entropy_with_grads(x, weight, bias, targets, out, *outs, scale=scale, ignore_index=ignore_index)

    def attrs(self, *args: Any) -> Any:
        return args[4:6]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (*(None if unit is None else do(mul, unit, grads[0]) for unit in saved[:3]), None)

    def backward_once(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        for unit in saved[:3]:
            if unit is not None and node.run_device is not META:
                backend(node.run_device.type).multiply(unit, grads[0], unit)
        return (*saved[:3], None)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight, bias, targets = saved[3:]
        scale, ignore_index = node.op_attrs

        def compose(x: Any, weight: Any, bias: Any) -> Any:
            return mul(sum(_row_losses(linear(x, weight, bias), targets, ignore_index)), scale)

        return (*differentiated(compose, (x, weight, bias), node.needs_grad[:3], grads[0]), None)


cross_entropy = CrossEntropy()
cross_entropy_backward = CrossEntropyBackward()
linear_cross_entropy = LinearCrossEntropy()
linear_cross_entropy_backward = LinearCrossEntropyBackward()
linear_cross_entropy_loss = LinearCrossEntropyLoss()
