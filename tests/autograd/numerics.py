"""Derivatives by differences, to compare the engine's with: they know none of its formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import stowgrad
from stowgrad.autograd import grad

# Central differences in float64: the error of the difference falls with STEP**2, that of rounding grows with 1/STEP.
STEP = 1e-5
TOLERANCE = 1e-7


def leaves(arrays: Sequence[np.ndarray[Any, Any]], needs: Sequence[bool]) -> list[Any]:
    """A tensor of each array, a leaf that requires grad where ``needs`` says so."""
    return [stowgrad.tensor(array, requires_grad=bool(needed)) for array, needed in zip(arrays, needs, strict=True)]


def projected(function: Callable[..., Any], weights: list[Any]) -> Callable[..., Any]:
    """The sum of all outputs of ``function`` times random weights, which are drawn at the first call."""

    def scalar(*tensors: Any) -> Any:
        results = function(*tensors)
        results = results if isinstance(results, tuple) else (results,)
        if not weights:
            rng = np.random.default_rng(5)
            weights.extend(stowgrad.tensor(rng.uniform(0.5, 1.5, result.shape)) for result in results)
        total = 0.0
        for result, weight in zip(results, weights, strict=True):
            total = total + (result * weight).sum()
        return total

    return scalar


def difference(scalar: Callable[..., float], arrays: Sequence[Any], directions: Sequence[Any]) -> float:
    """The slope of ``scalar`` along ``directions`` (None for arrays that stay), by central differences."""

    def at(step: float) -> float:
        moved = [a if d is None else a + step * d for a, d in zip(arrays, directions, strict=True)]
        return float(scalar(*moved))

    return (at(STEP) - at(-STEP)) / (2 * STEP)


def random_directions(arrays: Sequence[np.ndarray[Any, Any]], needs: Sequence[bool], seed: int) -> list[Any]:
    """A random direction for each array that takes part."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, a.shape) if needed else None for a, needed in zip(arrays, needs, strict=True)]


def close(got: float, expected: float, tolerance: float) -> bool:
    """Whether two slopes agree, relative to their size where that is above 1."""
    return abs(got - expected) <= tolerance * max(1.0, abs(expected))


def check_first(
    function: Callable[..., Any], arrays: Sequence[Any], needs: Sequence[bool], create_graph: bool = False
) -> None:
    """Compare the engine's gradients along a random direction, one input at a time, with differences."""
    scalar = projected(function, [])
    tensors = leaves(arrays, needs)
    wanted = [tensor for tensor, needed in zip(tensors, needs, strict=True) if needed]
    found = iter(grad(scalar(*tensors), wanted, create_graph=create_graph))
    gradients = [next(found).detach().numpy() if needed else None for needed in needs]

    def value(*moved: Any) -> float:
        with stowgrad.no_grad():
            return float(scalar(*leaves(moved, [False] * len(moved))))

    for position, needed in enumerate(needs):
        if not needed:
            continue
        only = [here == position for here in range(len(needs))]
        directions = random_directions(arrays, only, seed=11 + position)
        got = float((gradients[position] * directions[position]).sum())
        expected = difference(value, arrays, directions)
        assert close(got, expected, TOLERANCE), f"input {position}: engine {got!r}, differences {expected!r}"


def check_second(function: Callable[..., Any], arrays: Sequence[Any], needs: Sequence[bool]) -> None:
    """Compare the gradients of a random projection of the gradients with its differences."""
    scalar = projected(function, [])
    inner = random_directions(arrays, needs, seed=23)

    def slope(*moved: Any, create_graph: bool) -> Any:
        tensors = leaves(moved, needs)
        wanted = [tensor for tensor, needed in zip(tensors, needs, strict=True) if needed]
        first = grad(scalar(*tensors), wanted, create_graph=create_graph)
        along = [stowgrad.tensor(direction) for direction in inner if direction is not None]
        total = 0.0
        for gradient, direction in zip(first, along, strict=True):
            total = total + (gradient * direction).sum()
        return total, wanted

    def value(*moved: Any) -> float:
        return float(slope(*moved, create_graph=False)[0].detach())

    total, wanted = slope(*arrays, create_graph=True)
    if not total.requires_grad:  # linear functions: the gradient is constant
        second = (None,) * len(wanted)
    else:
        second = grad(total, wanted, allow_unused=True)
    outer = random_directions(arrays, needs, seed=37)
    along = [direction for direction in outer if direction is not None]
    got = sum(float((g.numpy() * d).sum()) for g, d in zip(second, along, strict=True) if g is not None)
    expected = difference(value, arrays, outer)
    assert close(got, expected, 20 * TOLERANCE), f"engine {got!r}, differences {expected!r}"
