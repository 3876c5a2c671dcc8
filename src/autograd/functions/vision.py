"""Sampling of images, as functions of the top level; `stowgrad.nn.functional` has the others."""

from __future__ import annotations

from typing import Any

from ..ops.grid_sample import grid_sample

__all__ = ["grid_sampler", "grid_sampler_2d", "grid_sampler_3d"]

_MODES = ("bilinear", "nearest", "bicubic")
_PADDING = ("zeros", "border", "reflection")


def sample_grid(input: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
    """Values of images at places, after the checks of shapes.

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
    """
    shape, places = input._array.shape, grid._array.shape
    axes = len(shape) - 2
    if axes not in (2, 3) or len(places) != len(shape):
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes"
            f" {list(shape)} and grid with sizes {list(places)}"
        )
    if shape[0] != places[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes"
            f" {list(shape)} and grid with sizes {list(places)}"
        )
    if places[-1] != axes:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {axes} in last dimension, but got grid with sizes"
            f" {list(places)}"
        )
    if 0 in shape[2:]:
        raise RuntimeError(f"grid_sampler(): expected input to have non-empty spatial dimensions, got {list(shape)}")
    if input._array.dtype != grid._array.dtype:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to have same dtype, but input has {input._array.dtype} and grid"
            f" has {grid._array.dtype}"
        )
    if mode == "bicubic" and axes == 3:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    return grid_sample(input, grid, mode, padding_mode, bool(align_corners))


def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """`stowgrad.nn.functional.grid_sample` with modes by number.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        grid: ``(N, *, 2)`` or ``(N, *, 3)``: places from -1 to 1.
        interpolation_mode: 0 bilinear, 1 nearest, 2 bicubic.
        padding_mode: 0 zeros, 1 border, 2 reflection.
        align_corners: whether -1 and 1 are the outermost elements, or their outer edges.

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
    """
    return sample_grid(input, grid, _MODES[interpolation_mode], _PADDING[padding_mode], align_corners)


def grid_sampler_2d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """`grid_sampler` of images."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """`grid_sampler` of volumes."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)
