"""Elements of images at given places."""

from __future__ import annotations

import itertools
from typing import Any, TypeAlias

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec
from .elementwise import add, mul, sub
from .pooling import plane_gather, plane_scatter_add
from .promotion import check_floating
from .recompose import differentiated
from .shape import index, zeros_of
from .sum_to import expand

Numbers: TypeAlias = tuple[int, ...]
_TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
_CUBIC = -0.75


class GridSample(Op):
    """Values of images (N, C, *size) at places (N, *count, axes); called with mode, padding mode and align_corners.

    Source: Jaderberg et al., Spatial Transformer Networks, 2015.
    """

    name = "grid_sampler"
    inputs = 2
    saves = (Slot("input", 0, needed_for=(1,)), Slot("grid", 1))

    def infer(self, x: Any, grid: Any, *attrs: Any) -> tuple[Spec, ...]:
        check_floating(self.name, x.dtype)
        return (((*x.shape[:2], *grid.shape[1:-1]), x.dtype),)

    def kernel(self, k: Any, x: Any, grid: Any, *rest: Any) -> None:
        mode, padding_mode, align_corners, out = rest
        k.grid_sample(x, grid, out, mode=mode, padding_mode=padding_mode, align_corners=align_corners)

    def attrs(self, x: Any, grid: Any, *attrs: Any) -> Any:
        return x.shape[2:], *attrs

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        results = do(grid_sample_backward, grads[0], *saved, node.op_attrs, node.needs_grad)
        return tuple(result if needed else None for result, needed in zip(results, node.needs_grad, strict=True))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (x, grid), (grad,) = saved, grads
        size, mode, padding_mode, align_corners = node.op_attrs
        places = do(grid_places, grid, size, mode, padding_mode, align_corners)
        by_x = by_grid = None
        if node.needs_grad[0]:
            for elements, weight in _corners(do, grid, places, mode, tuple(grad.shape)):
                part = do(plane_scatter_add, do(mul, grad, weight), elements, size)
                by_x = part if by_x is None else do(add, by_x, part)
        if node.needs_grad[1] and mode == "nearest":
            by_grid = do(zeros_of, grid, tuple(grid.shape))
        elif node.needs_grad[1]:

            def compose(grid: Any) -> Any:
                total = None
                for elements, weight in _corners(do, grid, places, mode, tuple(grad.shape)):
                    part = mul(plane_gather(x, elements, len(size)), weight)
                    total = part if total is None else add(total, part)
                return total

            (by_grid,) = differentiated(compose, (grid,), (True,), grad)
        return by_x, by_grid


def _corners(do: Do, grid: Any, places: tuple[Any, ...], mode: str, shape: Numbers) -> Any:
    """The elements' numbers and their weights, broadcast over channels, for each combination of taps."""
    elements, inside, multiplier, offset = places
    within = do(add, do(mul, grid, multiplier), offset)
    axes = grid.shape[-1]
    weights = [_weights(do, do(index, within, (..., axes - 1 - axis)), mode) for axis in range(axes)]
    for number, corner in enumerate(itertools.product(range(_TAPS[mode]), repeat=axes)):
        at = (slice(None), slice(number, number + 1))
        weight = do(index, inside, at)
        for axis, tap in enumerate(corner):
            factor = weights[axis][tap]
            if factor is not None:
                weight = do(mul, weight, do(index, factor, (slice(None), None)))
        yield do(expand, do(index, elements, at), shape), weight


def _weights(do: Do, share: Any, mode: str) -> list[Any]:
    """The weights of the taps of one axis, None for 1."""
    if mode == "nearest":
        return [None]
    other = do(sub, 1.0, share)
    if mode == "bilinear":
        return [other, share]
    outer = [_far(do, do(add, part, 1.0)) for part in (share, other)]
    return [outer[0], _near(do, share), _near(do, other), outer[1]]


def _near(do: Do, x: Any) -> Any:
    """The cubic kernel at distances up to 1."""
    inner = do(sub, do(mul, x, _CUBIC + 2.0), _CUBIC + 3.0)
    return do(add, do(mul, do(mul, inner, x), x), 1.0)


def _far(do: Do, x: Any) -> Any:
    """The cubic kernel at distances from 1 to 2."""
    inner = do(add, do(mul, do(sub, x, 5.0), x), 8.0)
    return do(sub, do(mul, do(mul, inner, x), _CUBIC), 4.0 * _CUBIC)


class GridSampleBackward(Op):
    """The gradients of images and places; one that is not needed is empty."""

    name = "grid_sampler_backward"
    inputs = 3
    outputs = 2

    def infer(self, grad: Any, x: Any, grid: Any, attrs: Any, needs: tuple[bool, ...]) -> tuple[Spec, ...]:
        by_x = (*grad.shape[:2], *attrs[0]) if needs[0] else (0,)
        return (by_x, grad.dtype), (grid.shape if needs[1] else (0,), grid.dtype)

    def kernel(self, k: Any, grad: Any, x: Any, grid: Any, attrs: Any, needs: Any, *outs: Any) -> None:
        _, mode, padding_mode, align_corners = attrs
        wanted = [out if needed else None for out, needed in zip(outs, needs, strict=True)]
        k.grid_sample_backward(
            grad, x, grid, *wanted, mode=mode, padding_mode=padding_mode, align_corners=align_corners
        )


class GridPlaces(Op):
    """What `GridSample` reads: elements' numbers, whether they exist, and what gives places within elements."""

    name = "grid_places"
    outputs = 4
    differentiable = False

    def infer(self, grid: Any, size: Numbers, mode: str, *rest: Any) -> tuple[Spec, ...]:
        shape = (grid.shape[0], _TAPS[mode] ** len(size), *grid.shape[1:-1])
        return (
            (shape, np.dtype(np.int64)),
            (shape, grid.dtype),
            (grid.shape, grid.dtype),
            (grid.shape, grid.dtype),
        )

    def kernel(self, k: Any, grid: Any, *rest: Any) -> None:
        size, mode, padding_mode, align_corners, *outs = rest
        k.grid_places(grid, *outs, size=size, mode=mode, padding_mode=padding_mode, align_corners=align_corners)


grid_sample = GridSample()
grid_sample_backward = GridSampleBackward()
grid_places = GridPlaces()
