"""What sizes and strides say about where elements lie, for the kernels of all devices."""

from __future__ import annotations

from typing import TypeAlias

# Sizes, strides in elements, and where the first element lies.
Geometry: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], int]
# For some dimensions: which, elements before, elements behind.
Pads: TypeAlias = tuple[tuple[int, int, int], ...]
Part: TypeAlias = tuple[slice, ...]


def meeting_dims(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[int]:
    """The dimensions to leave out of a view so that no two of its elements lie in one place."""
    found = []
    reach = 0
    for dim in sorted(range(len(shape)), key=lambda dim: (abs(strides[dim]), -shape[dim])):
        if shape[dim] == 1:
            continue
        if reach and abs(strides[dim]) <= reach:
            found.append(dim)
        else:
            reach += abs(strides[dim]) * (shape[dim] - 1)
    return found


def reach_of(*views: Geometry) -> tuple[int, int]:
    """The first and the last element that views look at."""
    least = most = views[0][2]
    for shape, strides, offset in views:
        steps = [step * (size - 1) for size, step in zip(shape, strides, strict=True) if size]
        least = min(least, offset + sum(step for step in steps if step < 0))
        most = max(most, offset + sum(step for step in steps if step > 0))
    return least, most


def inner_part(shape: tuple[int, ...], pads: Pads) -> Part:
    """Where an array of a shape lies in its padded copy."""
    part = [slice(None)] * len(shape)
    for dim, before, _ in pads:
        part[dim] = slice(before, before + shape[dim])
    return tuple(part)


def margins(shape: tuple[int, ...], pads: Pads, mode: str) -> list[tuple[Part, Part]]:
    """The margins of a padded copy, each with the part of the copy whose elements it repeats, in the order of filling.

    Args:
        shape: before the padding.
        mode: ``"reflect"``, ``"replicate"`` or ``"circular"``.
    """
    filled = list(inner_part(shape, pads))
    found = []
    for dim, before, behind in pads:
        size = shape[dim]
        end = before + size
        sources = {
            "reflect": (slice(2 * before, before, -1), slice(end - 2, _stop(end - 2 - behind), -1)),
            "replicate": (slice(before, before + 1), slice(end - 1, end)),
            "circular": (slice(size, end), slice(before, before + behind)),
        }[mode]
        for margin, source in zip((slice(0, before), slice(end, end + behind)), sources, strict=True):
            if margin.stop > margin.start:
                found.append(((*filled[:dim], margin, *filled[dim + 1 :]), (*filled[:dim], source, *filled[dim + 1 :])))
        filled[dim] = slice(None)
    return found


def _stop(number: int) -> int | None:
    """The end of a backward slice."""
    return number if number >= 0 else None
