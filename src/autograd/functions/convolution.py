"""Convolutions, as functions of the top level."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..ops.convolution import convolve, convolve_transposed

__all__ = [
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

Sizes: TypeAlias = int | tuple[int, ...] | list[int]


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """A convolution over one dimension; as `conv2d`."""
    return convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """A convolution over two dimensions (a cross-correlation, as everywhere in neural networks).

    Args:
        input: ``(N, C, H, W)``, or ``(C, H, W)`` for a single sample.
        weight: ``(O, C / groups, kH, kW)``.
        bias: ``(O,)`` or None.
        stride, dilation: one number, or one for each dimension.
        padding: the same; or ``"valid"`` for none, ``"same"`` for as much as keeps the size (stride 1 only), one more
            after than before where it is odd.
        groups: into how many groups of channels input and result are split.

    Returns:
        ``(N, O, H', W')`` or ``(O, H', W')``, with ``H' = (H + 2 padding - dilation (kH - 1) - 1) // stride + 1``.

    Raises:
        RuntimeError: if shapes or dtypes do not fit.

    Keeps the input if the weight needs a gradient, and the weight if the input does.

    On the CPU, float32 with 3 x 3 weights, many channels and neither stride nor dilation is computed by minimal
    filtering (Winograd; Lavin & Gray, 2016). Errors are then relative to the largest element that a window sees, even
    where its weight is zero. float64 is summed over places.

    >>> import stowgrad
    >>> stowgrad.conv2d(stowgrad.ones(1, 3, 8, 8), stowgrad.ones(4, 3, 3, 3), stride=2, padding=1).shape
    (1, 4, 4, 4)
    """
    return convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Any:
    """A convolution over three dimensions; as `conv2d`."""
    return convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Any:
    """A transposed convolution over one dimension; as `conv_transpose2d`."""
    args = stride, padding, output_padding, groups, dilation
    return convolve_transposed("conv_transpose1d", 1, input, weight, bias, *args)


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Any:
    """A transposed convolution over two dimensions: what the gradient of `conv2d` by its input is.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        weight: ``(C, O / groups, kH, kW)``.
        bias: ``(O,)`` or None.
        stride, padding, dilation: those of the convolution whose reverse this is.
        output_padding: added to the size of the result on one side.
        groups: into how many groups of channels input and result are split.

    Returns:
        ``(N, O, H', W')`` with ``H' = (H - 1) stride - 2 padding + dilation (kH - 1) + output_padding + 1``.

    Raises:
        RuntimeError: if shapes or dtypes do not fit.

    Keeps the input if the weight needs a gradient, and the weight if the input does.
    """
    args = stride, padding, output_padding, groups, dilation
    return convolve_transposed("conv_transpose2d", 2, input, weight, bias, *args)


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Any:
    """A transposed convolution over three dimensions; as `conv_transpose2d`."""
    args = stride, padding, output_padding, groups, dilation
    return convolve_transposed("conv_transpose3d", 3, input, weight, bias, *args)
