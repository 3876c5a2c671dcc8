"""What all normalisations share: their gradients under ``create_graph``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..record import Do
from .elementwise import mul
from .recompose import differentiated


def affine_gradients(
    do: Do,
    normal: Callable[[Any], Any],
    operands: tuple[Any, Any],
    needs: tuple[bool, ...],
    grad: Any,
    along: Callable[[Any], Any],
    total: Callable[[Any], Any],
) -> tuple[Any, Any, Any]:
    """The gradients at input, weight and bias of ``normal(input) * weight + bias``, recorded.

    Args:
        normal: normalises, with differentiable ops.
        operands: input and weight, each None where it is not needed.
        along: gives the weight a shape that broadcasts to the input's.
        total: sums what has the input's shape to the weight's.
    """
    x, weight = operands
    by_x = by_weight = None
    if needs[0]:
        (by_x,) = differentiated(normal, (x,), (True,), grad if weight is None else do(mul, grad, along(weight)))
    if needs[1]:
        by_weight = total(do(mul, grad, normal(x)))
    return by_x, by_weight, total(grad) if needs[2] else None
