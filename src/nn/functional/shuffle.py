"""Channels and pixels in another order: views, and a copy where strides ask for one."""

from __future__ import annotations

from typing import Any

__all__ = ["channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]


def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """Channels laid out as pixels: (..., C * r * r, H, W) becomes (..., C, H * r, W * r)."""
    sizes, r = _image("pixel_shuffle", input), upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, channels, height, width = sizes
    if channels % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor,"
            f" but input.size(-3)={channels} is not divisible by {r * r}"
        )
    n = len(lead)
    apart = input.reshape(*lead, channels // (r * r), r, r, height, width)
    moved = apart.permute(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return moved.reshape(*lead, channels // (r * r), height * r, width * r)


def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """Pixels laid out as channels: (..., C, H * r, W * r) becomes (..., C * r * r, H, W)."""
    sizes, r = _image("pixel_unshuffle", input), downscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, channels, height, width = sizes
    for name, size in (("height", height), ("width", width)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but {size} is not divisible by"
                f" {r}"
            )
    n = len(lead)
    apart = input.reshape(*lead, channels, height // r, r, width // r, r)
    moved = apart.permute(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return moved.reshape(*lead, channels * r * r, height // r, width // r)


def _image(name: str, input: Any) -> tuple[int, ...]:
    sizes: tuple[int, ...] = input._array.shape
    if len(sizes) < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {len(sizes)} dimension(s)"
        )
    return sizes


def channel_shuffle(input: Any, groups: int) -> Any:
    """The channels (dimension 1) of ``groups`` groups mixed: the first of each group, then the second of each, ..."""
    sizes = input._array.shape
    if len(sizes) <= 2:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(sizes)}")
    if groups <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    batch, channels, *rest = sizes
    if channels % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {channels} channels and {groups} groups."
        )
    apart = input.reshape(batch, groups, channels // groups, *rest)
    return apart.transpose(1, 2).reshape(sizes)
