"""Numbers that were drawn: they do not depend smoothly on how."""

from __future__ import annotations

from typing import Any

from stowgrad.autograd.ops import drawn, elementwise, shape

from .case import Case, positive, rand


def _numbers(x: Any) -> Any:
    """Numbers of the shape of ``x``, the same whatever its elements are."""
    return elementwise.add(shape.zeros_of(x.detach(), x._array.shape), 0.7)


def _times(op: Any, *tensors: Any) -> Any:
    """The product of the last tensor and of numbers that are drawn from the others, on which it depends in steps."""
    *given, factor = tensors
    return elementwise.mul(op(*given, 3, 5), factor)


def _binomial(y: Any) -> Any:
    numbers = _numbers(y)
    return elementwise.mul(drawn.binomial(elementwise.mul(numbers, 10.0), numbers, 3, 5), y)


def _gamma(y: Any) -> Any:
    return elementwise.mul(drawn.standard_gamma(_numbers(y), 3, 5), y)


FUSED = {"standard_gamma_backward"}
CASES = [
    Case(
        "drawn",
        lambda x, y: elementwise.mul(drawn.drawn_normal(_numbers(x), x, y), y),
        (rand(2, 3), rand(2, 3)),
    ),
    Case(
        "drawn", lambda x, y: elementwise.mul(drawn.drawn_normal(_numbers(y), x, None), y), (rand(3), rand(2, 3)), "one"
    ),
    Case("poisson", lambda x, y: _times(drawn.poisson, x, y), (positive(2, 3), rand(2, 3))),
    Case("binomial", _binomial, (rand(2, 3),)),
    Case("standard_gamma", _gamma, (rand(2, 3),)),
]
