"""Cross-entropy of logits and class numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...kernels.executor import scratch
from ...kernels.index_range import all_in_range
from ...kernels.numpy_.loss import FEW_CLASSES, log_sum_exp_of_few
from ...memory import CPU, SMALL_BYTES
from ..record import Do, Slot, Spec
from ..whole import FewOp, apply_together, is_few
from .cast import constant, copy_array_to, to_dtype
from .elementwise import add, mul, neg, square, where
from .promotion import check_floating
from .recompose import differentiated
from .reduce import sum
from .softmax import log_softmax, logsumexp

FLOAT32 = np.dtype(np.float32)


def check_targets(name: str, rows: int, classes: int, targets: Any, ignore_index: int) -> None:
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
    if all_in_range(targets, classes):
        return
    wrong = (targets != ignore_index) & ((targets < 0) | (targets >= classes))
    if bool(wrong.any()):
        bad = int(targets[wrong][0])
        raise IndexError(f"{name}: Target {bad} is out of bounds: there are {classes} classes (0 to {classes - 1})")


def check_class_weight(name: str, classes: int, weight: Any) -> None:
    """Raise what PyTorch raises for weights of classes that do not fit."""
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(
            f"{name}: weight tensor should be defined either for all {classes} classes or no classes, but got weight"
            f" tensor of shape: {list(weight.shape)}"
        )


def class_weight(name: str, weight: Any, like: Any) -> Any:
    """Weights of classes in the dtype of a tensor.

    Raises:
        RuntimeError: if they require grad.
    """
    if weight is None:
        return None
    if weight._requires_grad:
        raise RuntimeError(
            f"The function '{name}' is not differentiable with respect to argument 'weight'. This input cannot have"
            " requires_grad True; detach() it."
        )
    return weight if weight._array.dtype == like._array.dtype else to_dtype(weight, like._array.dtype)


def exact_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What statistics of a dtype are kept in: float32 for half precision."""
    return FLOAT32 if dtype.itemsize < 4 else dtype


class CrossEntropy(FewOp):
    """The loss of each row of logits, (N, C), or place, (N, C, L); the logits and one number a row are saved.

    Called with logits, class numbers, weights of the classes (or None), the number of rows to leave out, the share of
    the loss that all classes get evenly, and by how much the sum of the losses is scaled, None for the losses
    themselves.
    """

    name = "cross_entropy"
    inputs = 3
    auxiliary = 2
    saves = (Slot("self", 0), Slot("target", 1), Slot("weight", 2), Slot("logsumexp", 1, output=True))

    def __call__(
        self,
        logits: Any,
        targets: Any,
        weight: Any = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        scale: float | None = None,
    ) -> Any:
        weight = class_weight(self.name, weight, logits)
        return apply_together(self, logits, targets, weight, ignore_index, float(label_smoothing), scale)

    def infer(
        self,
        logits: Any,
        targets: Any,
        weight: Any,
        ignore_index: int,
        label_smoothing: float,
        scale: float | None,
    ) -> tuple[Spec, ...]:
        check_floating(self.name, logits.dtype)
        classes, rows = logits.shape[1], (logits.shape[0], *logits.shape[2:])
        check_targets(self.name, math.prod(rows), classes, targets, ignore_index)
        check_class_weight(self.name, classes, weight)
        losses, lse = (rows, logits.dtype), (rows, exact_dtype(logits.dtype))
        return (losses, lse) if scale is None else (((), logits.dtype), lse, losses)

    def kernel(self, k: Any, logits: Any, targets: Any, weight: Any, *rest: Any) -> None:
        if self.fills((logits, targets, weight, *rest[:3]), rest[3:]):
            return
        ignore_index, label_smoothing, scale, out, lse, *rows = rest
        losses = rows[0] if rows else out
        options = {"weight": weight, "ignore_index": ignore_index, "label_smoothing": label_smoothing}
        for arrays in _matrices(logits, targets, losses, lse):
            k.cross_entropy(*arrays, **options)
        if scale is not None:
            reduced_rows(k, losses, scale, out)

    def takes_few(self, args: Sequence[Any]) -> bool:
        return _has_few_rows(args[0])

    def small_marked(
        self, logits: Any, targets: Any, weight: Any, ignore_index: int, label_smoothing: float, scale: float | None
    ) -> tuple[Any, ...] | None:
        if not _is_plain(logits, targets, weight, ignore_index, label_smoothing):
            return None
        lse, losses = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)
        log_sum_exp_of_few(logits, lse, losses, scratch(logits.shape, logits.dtype))
        with np.errstate(invalid="ignore"):
            np.subtract(lse, logits[np.arange(len(targets)), targets], losses)
        return with_sum(losses, scale, lse)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(cross_entropy_backward, grads[0], *saved, *node.op_attrs), None, None

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        logits, targets, weight, _ = saved
        *terms, scale = node.op_attrs

        def compose(logits: Any) -> Any:
            losses = row_losses(logits, targets, weight, *terms)
            return losses if scale is None else mul(sum(losses, (), False), scale)

        return (*differentiated(compose, (logits,), node.needs_grad[:1], grads[0]), None, None)


def _is_plain(logits: Any, targets: Any, weight: Any, ignore_index: int, label_smoothing: float) -> bool:
    """Whether there is nothing but logits of rows and their targets."""
    return weight is None and not label_smoothing and logits.ndim == 2 and not np.count_nonzero(targets == ignore_index)


def _has_few_rows(logits: Any) -> bool:
    """Whether `small_marked` computes these: short rows, and so few that what is kept of each comes from NumPy."""
    if is_few(logits):
        return True
    if type(logits) is not np.ndarray or logits.ndim != 2 or logits.dtype.char not in "fd":
        return False
    rows, classes = logits.shape
    return bool(0 < rows * logits.itemsize < SMALL_BYTES and 0 < classes <= FEW_CLASSES)


def with_sum(losses: Any, scale: float | None, *others: Any) -> tuple[Any, ...]:
    """What an op gives for few losses: these and others, or with a scale their scaled sum before that."""
    if scale is None:
        return losses, *others
    total = np.empty((), losses.dtype)
    np.add.reduce(losses, axis=None, out=total)
    total *= scale
    return total, *others, losses


def reduced_rows(k: Any, losses: Any, scale: float, out: Any) -> None:
    """``out = scale * losses.sum()``, by the kernels of a device."""
    k.sum(losses, out)
    if scale != 1.0:
        k.multiply(out, scale, out)


def _matrices(logits: Any, *rows: Any) -> Any:
    """Logits as matrices of rows, each with what belongs to its rows: (N, C, L) are N matrices (L, C)."""
    if logits.ndim == 2:
        return [(logits, *rows)]
    return [(logits[number].swapaxes(0, 1), *(array[number] for array in rows)) for number in range(len(logits))]


def row_losses(
    logits: Any, targets: Any, weight: Any, ignore_index: int, label_smoothing: float = 0.0, z_loss: float = 0.0
) -> Any:
    """`CrossEntropy` with plain ops: minus the log-probabilities, weighted, and the penalty of the linear form."""
    device, dtype = logits._storage.device, logits._array.dtype
    numbers = _on_host(targets)
    factors = _on_host(weight) if weight is not None else np.ones(logits._array.shape[1])
    counted = numbers != ignore_index
    safe = np.where(counted, numbers, 0)
    chosen = np.zeros((*numbers.shape, len(factors)))
    np.put_along_axis(chosen, safe[..., None], (1 - label_smoothing) * factors[safe][..., None], -1)
    if label_smoothing:
        chosen += factors * (label_smoothing / len(factors))
    chosen *= counted[..., None]
    shares = constant(np.moveaxis(chosen, -1, 1).astype(dtype), device)
    losses = neg(sum(mul(log_softmax(logits, 1), shares), (1,), False))
    if z_loss:
        penalties = constant((counted * z_loss).astype(dtype), device)
        losses = add(losses, mul(square(logsumexp(logits, 1)), penalties))
    if not counted.all():  # whatever arrives at the others goes no further
        losses = where(constant(counted, device), losses, 0.0)
    return losses


def _on_host(tensor: Any) -> Any:
    return copy_array_to(tensor._array, CPU, "temporary")[0]


def counted_weight(targets: Any, weight: Any, ignore_index: int) -> float:
    """What the mean divides by: how many targets count, or the sum of their classes' weights."""
    if targets._storage.device.type == "meta":
        return float(targets._array.size)
    array = targets._array
    counted = array != ignore_index
    if weight is None:
        return float(np.count_nonzero(counted))
    return float(weight._array[array[counted]].astype(np.float64).sum())


class CrossEntropyBackward(FewOp):
    """The fused gradient of the logits."""

    name = "cross_entropy_backward"
    inputs = 5
    auxiliary = 1

    def takes_few(self, args: Sequence[Any]) -> bool:
        return _has_few_rows(args[1])

    def infer(self, grad: Any, logits: Any, targets: Any, weight: Any, lse: Any, *attrs: Any) -> tuple[Spec, ...]:
        whole = logits.shape, logits.dtype
        return (whole,) if attrs[2] is None else (whole, (lse.shape, grad.dtype))

    def kernel(self, k: Any, grad: Any, logits: Any, targets: Any, weight: Any, lse: Any, *rest: Any) -> None:
        if self.fills((grad, logits, targets, weight, lse, *rest[:3]), rest[3:]):
            return
        ignore_index, label_smoothing, scale, out, *rows = rest
        if scale is not None:
            k.multiply(grad, scale, rows[0])
            grad = rows[0]
        options = {"weight": weight, "ignore_index": ignore_index, "label_smoothing": label_smoothing}
        if logits.ndim == 2:
            k.cross_entropy_backward(grad, logits, targets, lse, out, **options)
            return
        for number in range(len(logits)):
            arrays = (grad[number], logits[number].swapaxes(0, 1), targets[number], lse[number])
            k.cross_entropy_backward(*arrays, out[number].swapaxes(0, 1), **options)

    def small_marked(
        self, grad: Any, logits: Any, targets: Any, weight: Any, lse: Any, *attrs: Any
    ) -> tuple[Any, ...] | None:
        ignore_index, label_smoothing, scale = attrs
        if not _is_plain(logits, targets, weight, ignore_index, label_smoothing):
            return None
        out = scratch(logits.shape, logits.dtype)
        with np.errstate(invalid="ignore"):
            np.subtract(logits, lse[:, None], out)
            np.exp(out, out)
            factor = grad[:, None] if scale is None else grad * scale
            np.multiply(out, factor, out)
            out[np.arange(len(targets)), targets] -= grad if scale is None else factor
        return (out,) if scale is None else (out, None)


cross_entropy = CrossEntropy()
cross_entropy_backward = CrossEntropyBackward()
