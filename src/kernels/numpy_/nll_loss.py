"""Minus what stands at the right classes, times their weights, and the gradient of that."""

from __future__ import annotations

import numpy as np

from ..executor import Array
from .tiling import copy_tiled, numpy_workspace

__all__ = ["nll_loss", "nll_loss_backward"]

_WORKSPACE = 32  # bytes a target: numbers of classes, which ones count, factors


def nll_loss(x: Array, targets: Array, losses: Array, *, weight: Array | None = None, ignore_index: int = -100) -> None:
    """``losses[n, p] = -x[n, targets[n, p], p] * weight[targets[n, p]]``.

    Args:
        x: (C,), (N, C) or (N, C, *places).
        targets: of its shape without C: classes, or ``ignore_index``.
        losses: an out of that shape.
        weight: (C,), or None for 1.
    """
    with numpy_workspace(_WORKSPACE, targets.size, max(targets.size, 1)):
        counted, classes = _classes(targets, ignore_index)
        np.negative(x[_key(classes)], out=losses)
        if weight is not None:
            np.multiply(losses, weight[classes], out=losses)
        if counted is not None:
            np.copyto(losses, 0, where=~counted)


def nll_loss_backward(
    grad: Array, targets: Array, out: Array, *, weight: Array | None = None, ignore_index: int = -100
) -> None:
    """Zeros with ``out[n, targets[n, p], p] = -grad[n, p] * weight[targets[n, p]]``."""
    copy_tiled(0, out)
    with numpy_workspace(_WORKSPACE, targets.size, max(targets.size, 1)):
        counted, classes = _classes(targets, ignore_index)
        given = np.negative(grad)
        if weight is not None:
            given = given * weight[classes]
        if counted is not None:
            given = np.where(counted, given, np.zeros((), out.dtype))
        out[_key(classes)] = given


def _classes(targets: Array, ignore_index: int) -> tuple[Array | None, Array]:
    """Which targets count, None if all do, and their classes, 0 for the others."""
    counted = targets != ignore_index
    if counted.all():
        return None, targets
    return counted, np.where(counted, targets, 0)


def _key(classes: Array) -> tuple[Array, ...]:
    """What selects ``x[n, classes[n, p], p]``."""
    dims = classes.ndim
    key = [np.arange(size).reshape(-1, *(1,) * (dims - dim - 1)) for dim, size in enumerate(classes.shape)]
    key.insert(1 if dims else 0, classes)
    return tuple(key)
