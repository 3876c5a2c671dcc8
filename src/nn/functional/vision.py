"""Functions of images: resizing, sampling at given places, unfolding."""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np

from ...autograd.functions.pooling import adaptive_mean, spatial
from ...autograd.functions.vision import sample_grid
from ...autograd.ops.axis_maps import Interpolated
from ...autograd.ops.cast import constant
from ...autograd.ops.convolution import numbers
from ...autograd.ops.fold import col2im, im2col
from ...autograd.ops.interpolation import upsample as upsample_op
from ...autograd.ops.linalg import matmul
from ...autograd.ops.promotion import check_floating
from ...autograd.ops.shape import reshape, transpose
from ...autograd.tensor import Tensor
from ...autograd.whole import apply_alone
from ._checks import check_tensors

__all__ = [
    "affine_grid",
    "fold",
    "grid_sample",
    "interpolate",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

Sizes: TypeAlias = int | tuple[int, ...] | list[int]
Factors: TypeAlias = float | tuple[float, ...] | list[float]
_RULES = {
    "nearest": ("nearest", (1, 2, 3)),
    "nearest-exact": ("nearest-exact", (1, 2, 3)),
    "area": ("area", (1, 2, 3)),
    "linear": ("linear", (1,)),
    "bilinear": ("linear", (2,)),
    "trilinear": ("linear", (3,)),
    "bicubic": ("cubic", (2,)),
}


# -- resizing ----------------------------------------------------------------------------------------------------------


def interpolate(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Factors | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """Another size, with values between the elements.

    Args:
        input: ``(N, C, *)`` with one, two or three dimensions of places.
        size: their new sizes; or
        scale_factor: what they are multiplied by, one number or one for each.
        mode: ``nearest``, ``nearest-exact``, ``area``; ``linear``, ``bilinear``, ``trilinear`` by the number of
            dimensions; ``bicubic`` for two.
        align_corners: whether the outermost results are the outermost elements, instead of edges lying on edges.
        recompute_scale_factor: whether places follow from the sizes, not from ``scale_factor``.
        antialias: whether kernels are widened where the size shrinks (``bilinear`` and ``bicubic``).

    Raises:
        ValueError: for arguments that contradict each other.
        NotImplementedError: for a mode that does not fit the dimensions.
        RuntimeError: if a size is 0.

    Keeps nothing but sizes.
    """
    check_tensors("interpolate", input=input)
    dims = input.dim() - 2
    count, factors = _targets(input, dims, size, scale_factor, recompute_scale_factor)
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "interpolate: align_corners option can only be set with the interpolating modes: linear | bilinear |"
                " bicubic | trilinear"
            )
    if antialias and not (mode in ("bilinear", "bicubic") and dims == 2):
        raise ValueError(
            "interpolate: Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as"
            " input"
        )
    rule, fitting = _RULES.get(mode, (mode, ()))
    if dims not in fitting:
        fits = ", ".join(f"{name} ({' or '.join(f'{d + 2}D' for d in fit)})" for name, (_, fit) in _RULES.items())
        raise NotImplementedError(
            f"interpolate: got {input.dim()}D input, which mode {mode!r} does not fit; expected one of {fits}"
        )
    places = tuple(input.shape[2:])
    if min(*places, *count) < 1 or input.shape[1] < 1:
        raise RuntimeError(
            f"interpolate: Input and output sizes should be greater than 0, but got input {list(input.shape)} and"
            f" output {list(count)}"
        )
    if rule == "area":
        return adaptive_mean("interpolate", dims, input, count)
    if not (rule.startswith("nearest") and input.dtype == "uint8"):
        check_floating("interpolate", input.dtype)
    corners, wide = bool(align_corners), input.dtype == "float64"
    return apply_alone(upsample_op, input, _rules(places, count, factors, rule, corners, bool(antialias), wide), False)


@functools.lru_cache(maxsize=128)
def _rules(
    places: tuple[int, ...],
    count: tuple[int, ...],
    factors: tuple[float, ...],
    rule: str,
    corners: bool,
    antialias: bool,
    wide: bool,
) -> tuple[Interpolated | None, ...]:
    """What becomes of each dimension."""
    rules = []
    for length, results, factor in zip(places, count, factors, strict=True):
        same = length == results and (rule == "linear" or antialias or factor in (0.0, 1.0))
        made = Interpolated(length, results, rule, corners, antialias, factor, wide)
        rules.append(None if same else made)
    return tuple(rules)


def _targets(
    input: Tensor, dims: int, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The sizes of the result, and the factors that the caller named (0 for none)."""
    if size is not None and scale_factor is not None:
        raise ValueError("interpolate: only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("interpolate: either size or scale_factor should be defined")
    named, value = ("size", size) if size is not None else ("scale_factor", scale_factor)
    given = tuple(value) if isinstance(value, tuple | list) else (value,) * max(dims, 0)
    if len(given) != dims:
        raise ValueError(
            f"interpolate: Input and {named} must have the same number of spatial dimensions, but got input with"
            f" spatial dimensions of {list(input.shape[2:])} and {named} of {list(given)}"
        )
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor is not meaningful with an explicit size.")
        return tuple(int(length) for length in given), (0.0,) * dims
    count = tuple(math.floor(float(length) * factor) for length, factor in zip(input.shape[2:], given, strict=True))
    return count, (0.0,) * dims if recompute else tuple(float(factor) for factor in given)


def upsample(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Factors | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """PyTorch's older name of `interpolate`."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Sizes | None = None, scale_factor: Factors | None = None) -> Any:
    """`interpolate` with the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Sizes | None = None, scale_factor: Factors | None = None) -> Any:
    """`interpolate` between elements, the outermost ones staying where they are."""
    return interpolate(input, size, scale_factor, "bilinear", True)


# -- sampling ----------------------------------------------------------------------------------------------------------


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Values of images at given places.

    Args:
        input: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        grid: ``(N, *, 2)`` or ``(N, *, 3)`` with as many dimensions: places from -1 to 1, x before y before z.
        mode: ``bilinear`` (linear along each dimension), ``nearest``, or ``bicubic`` (of 4-D input).
        padding_mode: what lies outside: ``zeros``, the ``border``, or the ``reflection``.
        align_corners: whether -1 and 1 are the outermost elements, or (by default) their outer edges.

    Returns:
        ``(N, C, *)`` with the places of the grid.

    Raises:
        ValueError: for a mode that does not exist.
        RuntimeError: if shapes do not fit.

    Keeps the grid, and the input if the grid needs a gradient.
    """
    name = "nn.functional.grid_sample()"
    check_tensors("grid_sample", input=input, grid=grid)
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(f"{name}: expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            f"{name}: expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'"
        )
    return sample_grid(input, grid, mode, padding_mode, bool(align_corners))


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Any:
    """The places that affine maps look at, for `grid_sample`.

    Args:
        theta: matrices ``(N, 2, 3)`` or ``(N, 3, 4)``.
        size: that of the result of `grid_sample`: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: whether -1 and 1 are the outermost elements, or (by default) their outer edges.

    Returns:
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``.

    Raises:
        ValueError: if shapes do not fit.
    """
    check_tensors("affine_grid", theta=theta)
    size = tuple(int(length) for length in size)
    axes = len(size) - 2
    if axes not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size"
            f" {size}."
        )
    check_floating("affine_grid", theta.dtype)
    if tuple(theta.shape) != (size[0], axes, axes + 1):
        raise ValueError(
            f"Expected a batch of {axes}D affine matrices of shape Nx{axes}x{axes + 1} for size {size}. Got"
            f" {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    places = math.prod(size[2:])
    base = np.ones((places, axes + 1))
    for axis, length in enumerate(size[2:]):
        steps = np.linspace(-1.0, 1.0, length) if length > 1 else np.zeros(1)
        steps = steps if align_corners else steps * ((length - 1) / length)
        around = (-1, *(1,) * (axes - axis - 1))
        base[:, axes - 1 - axis] = np.broadcast_to(steps.reshape(around), size[2:]).reshape(-1)
    whole = constant(base.astype(theta.dtype), theta.device)
    return reshape(matmul(whole, transpose(theta, 1, 2)), (size[0], *size[2:], axes))


def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Any:
    """Windows of images as columns.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size, dilation, padding, stride: of the windows; one number, or one for each dimension.

    Returns:
        ``(N, C * kH * kW, L)`` with a column for each of the L windows.

    Raises:
        RuntimeError: if sizes do not fit.

    Keeps nothing but sizes.
    """
    size = spatial("unfold", 2, input)
    window = _window("unfold", kernel_size, dilation, padding, stride)
    count = _counts("unfold", size, *window)
    kernel, spread, pad, step = window
    batch = input if input.dim() == 4 else reshape(input, (1, *input.shape))
    out = im2col(batch, size, count, kernel, step, pad, spread)
    return out if batch is input else reshape(out, out.shape[1:])


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Any:
    """The reverse of `unfold`: columns added up in images.

    Args:
        input: ``(N, C * kH * kW, L)`` or ``(C * kH * kW, L)``.
        output_size: of the images.
        kernel_size, dilation, padding, stride: of the windows; one number, or one for each dimension.

    Returns:
        ``(N, C, H, W)`` or ``(C, H, W)``.

    Raises:
        RuntimeError: if sizes do not fit.

    Keeps nothing but sizes.
    """
    check_tensors("fold", input=input)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"fold: Expected 2D or 3D (batch mode) tensor for input, but got: {list(input.shape)}")
    size = numbers("fold", "output_size", output_size, 2, 1)
    window = _window("fold", kernel_size, dilation, padding, stride)
    kernel, spread, pad, step = window
    places, columns = input.shape[-2:]
    if places % math.prod(kernel):
        raise RuntimeError(
            "fold: Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got"
            f" {places} and kernel_size={kernel}"
        )
    count = _counts("fold", size, *window)
    if columns != math.prod(count):
        raise RuntimeError(
            f"fold: Given output_size={size} and kernel_size={kernel}, expected the input's last size to match the"
            f" calculated number of sliding blocks {count[0]} * {count[1]}, but got {columns}"
        )
    batch = input if input.dim() == 3 else reshape(input, (1, *input.shape))
    out = col2im(batch, size, count, kernel, step, pad, spread)
    return out if batch is input else reshape(out, out.shape[1:])


def _window(name: str, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> tuple[tuple[int, ...], ...]:
    return (
        numbers(name, "kernel_size", kernel_size, 2, 1),
        numbers(name, "dilation", dilation, 2, 1),
        numbers(name, "padding", padding, 2, 0),
        numbers(name, "stride", stride, 2, 1),
    )


def _counts(name: str, size: tuple[int, ...], *window: tuple[int, ...]) -> tuple[int, ...]:
    kernel, spread, pad, step = window
    count = tuple((size[d] + 2 * pad[d] - spread[d] * (kernel[d] - 1) - 1) // step[d] + 1 for d in range(2))
    if min(count) < 1:
        raise RuntimeError(
            f"{name}: Given spatial size {size}, kernel_size={kernel}, dilation={spread}, padding={pad}, calculated"
            f" shape of the array of sliding blocks as {count}, but its components must be at least one."
        )
    return count
