"""Padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...autograd.functions.arrange import constant_pad_nd
from ...autograd.ops.arrange import pad_edges as _pad_edges
from ...autograd.ops.cast import clone as _clone
from ...autograd.ops.shape import index as _index

__all__ = ["pad"]

_MODES = ("reflect", "replicate", "circular")


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """Dimensions made longer at both ends, or (by negative numbers) shorter; the node keeps no values.

    Args:
        pad: how many elements come before and behind: of the last dimension, then of the one before it, and so on.
        mode: what is filled in: ``"constant"``, the elements mirrored at the first and last one (``"reflect"``), these
            repeated (``"replicate"``), or those of the other end (``"circular"``).
        value: the constant, 0 by default.

    Raises:
        NotImplementedError: for a mode that does not exist, or other modes than constant for another number of
            dimensions than the last one, two or three of a tensor that has one or two more.
        RuntimeError: for more mirrored or circular elements than there are.

    >>> import stowgrad
    >>> stowgrad.nn.functional.pad(stowgrad.arange(3.0)[None], (2, 1), mode="reflect").tolist()
    [[2.0, 1.0, 0.0, 1.0, 2.0, 1.0]]
    """
    pad = tuple(int(part) for part in pad)
    if mode == "constant":
        return constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    ndim, padded = input._array.ndim, len(pad) // 2
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(pad) % 2 or padded not in (1, 2, 3) or ndim - padded not in (1, 2):
        raise NotImplementedError(
            "Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: expected padding of the last"
            f" dimension of a 2D or 3D tensor, of the last 2 of a 3D or 4D, or the last 3 of a 4D or 5D tensor; got a"
            f" {ndim}D tensor and {len(pad)} numbers"
        )
    pairs = [(ndim - 1 - place, pad[2 * place], pad[2 * place + 1]) for place in range(padded)][::-1]
    for dim, before, behind in pairs:
        _check(mode, input._array.shape, dim, before, behind)
    longer = tuple((dim, max(before, 0), max(behind, 0)) for dim, before, behind in pairs)
    if min(pad) >= 0:
        return _pad_edges(input, longer, mode)
    if mode == "circular":  # the ends of what is left follow each other
        return _pad_edges(_shorter(input, pairs), longer, mode)
    return _clone(_shorter(_pad_edges(input, longer, mode), pairs))


def _shorter(x: Any, pairs: Sequence[tuple[int, int, int]]) -> Any:
    """A view without the elements that negative numbers leave out."""
    part = [slice(None)] * x._array.ndim
    for dim, before, behind in pairs:
        part[dim] = slice(max(-before, 0), x._array.shape[dim] - max(-behind, 0))
    return _index(x, tuple(part))


def _check(mode: str, shape: tuple[int, ...], dim: int, before: int, behind: int) -> None:
    size = shape[dim]
    if mode == "reflect" and max(before, behind) >= size:
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding"
            f" ({before}, {behind}) at dimension {dim} of input {list(shape)}"
        )
    if mode == "circular" and max(before, behind) > size + min(before, 0) + min(behind, 0):
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if before + size + behind < (0 if mode == "circular" else 1):
        raise RuntimeError(
            f"input (size: {size}) plus padding ({before}, {behind}) at dimension {dim} is too small: the output must"
            " not be empty"
        )
    if size == 0:
        raise RuntimeError(f"pad: expected a non-empty dimension {dim} to take elements from, got shape {list(shape)}")
