"""How a tensor prints: as PyTorch's do, with their options.

NOTE [ Numbers as text ]
1. All numbers of a tensor are as wide as the widest. Of floats, zeros and what is not finite don't count for that.
2. Floats that are all whole print as ``1.``; others with ``precision`` digits after the point; where the largest is
   over a thousand times the smallest, or either is far from 1, in scientific notation.
3. A tensor of more than ``threshold`` elements shows ``edgeitems`` at both ends of each dimension, and only these are
   looked at.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..memory import CPU, META
from .ops.cast import copy_array_to
from .ops.promotion import default_complex_dtype, get_default_dtype

_ALWAYS_PLAIN = (np.dtype(np.int64), np.dtype(np.bool_))
_SPREAD, _LARGEST, _SMALLEST = 1000.0, 1e8, 1e-4


@dataclasses.dataclass
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}
_options = _Options()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors print from now on; what is None stays as it is, but for ``sci_mode``.

    Args:
        precision: digits after the decimal point.
        threshold: above how many elements only the ends of dimensions are shown.
        edgeitems: how many are shown at an end.
        linewidth: characters a line.
        profile: ``"default"``, ``"short"`` or ``"full"``: values for all of these, before the others count.
        sci_mode: whether floats print in scientific notation; None decides by their size.

    Raises:
        ValueError: for a profile that there is not.
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"expected profile to be one of {', '.join(_PROFILES)}, got {profile!r}")
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    changes = {name: value for name, value in given.items() if value is not None}
    _options = dataclasses.replace(
        _options if profile is None else _PROFILES[profile],
        sci_mode=sci_mode,
        **changes,  # type: ignore[arg-type]
    )


def get_printoptions() -> dict[str, Any]:
    """What `set_printoptions` takes, as it is now, without the profile."""
    return dataclasses.asdict(_options)


@contextlib.contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """`set_printoptions` for a block of code."""
    global _options
    before = _options
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        _options = before


def tensor_text(tensor: Any) -> str:
    """``tensor([1., 2.], requires_grad=True)``."""
    array, device = tensor._array, tensor._storage.device
    prefix = "tensor("
    notes = [] if device is CPU else [f"device='{device}'"]
    shows_all = device is not META and array.size
    if not shows_all and (device is META or array.ndim != 1):
        notes.append(f"size={tuple(array.shape)}")
    if not shows_all:
        plain = array.dtype == get_default_dtype()
    else:
        plain = array.dtype in (get_default_dtype(), default_complex_dtype(), *_ALWAYS_PLAIN)
        if not _options.edgeitems:
            notes.append(f"size={tuple(array.shape)}")
    if not plain:
        notes.append(f"dtype={array.dtype.name}")
    if device is META:
        body = "..."
    else:
        body = values_text(array if device is CPU else copy_array_to(array, CPU, "temporary")[0], len(prefix))
    if tensor._grad_fn is not None:
        notes.append(f"grad_fn=<{tensor._grad_fn.name()}>")
    elif tensor._requires_grad:
        notes.append("requires_grad=True")
    return _with_notes(prefix + body, notes, len(prefix))


def _with_notes(text: str, notes: list[str], indent: int) -> str:
    """The text and what is to be said after it, on lines of their own where the last one is full."""
    column = len(text) - text.rfind("\n") + 1
    parts = [text]
    for note in notes:
        if column + len(note) + 2 > _options.linewidth:
            parts.append(f",\n{' ' * indent}{note}")
            column = indent + len(note)
        else:
            parts.append(f", {note}")
            column += len(note) + 2
    return "".join([*parts, ")"])


def values_text(array: Any, indent: int) -> str:
    """The elements of a NumPy array, in brackets, for a place ``indent`` characters from the left."""
    if not array.size:
        return "[]"
    if array.dtype.kind == "V" or (array.dtype.itemsize == 1 and array.dtype.kind == "f"):
        array = array.astype(np.float32)
    cut = array.size > _options.threshold
    shown = _ends(array) if cut else array
    if array.dtype.kind == "c":
        return _text(array, indent, cut, _Complex(shown))
    return _text(array, indent, cut, _Floats(shown) if array.dtype.kind == "f" else _Whole(shown))


def _ends(array: Any) -> Any:
    """The elements that are shown of a large array."""
    edge = _options.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            kept = [*range(edge), *range(size - edge, size)]
            array = np.take(array, kept, axis)
    return array


def _text(array: Any, indent: int, cut: bool, style: Any) -> str:
    if array.ndim == 0:
        return str(style.text(array.item()))
    edge = _options.edgeitems
    shortened = cut and len(array) > 2 * edge
    if array.ndim == 1:
        return _row(array, indent, shortened, style)
    if shortened:
        begin, end = array[:edge], array[len(array) - edge :]
        parts = [_text(part, indent + 1, cut, style) for part in begin]
        parts += ["...", *[_text(part, indent + 1, cut, style) for part in end]]
    else:
        parts = [_text(part, indent + 1, cut, style) for part in array]
    return f"[{(',' + chr(10) * (array.ndim - 1) + ' ' * (indent + 1)).join(parts)}]"


def _row(array: Any, indent: int, shortened: bool, style: Any) -> str:
    edge = _options.edgeitems
    if shortened:
        begin, end = array[:edge].tolist(), array[len(array) - edge :].tolist()
        parts = [*map(style.text, begin), " ...", *map(style.text, end)] if edge else ["..."]
    else:
        parts = [style.text(value) for value in array.tolist()]
    a_line = max(1, (_options.linewidth - indent) // (style.width + 2))
    lines = [", ".join(parts[start : start + a_line]) for start in range(0, len(parts), a_line)]
    return f"[{(',' + chr(10) + ' ' * (indent + 1)).join(lines)}]"


class _Whole:
    """Integers and bools, or floats that are all whole."""

    def __init__(self, values: Any) -> None:
        self.width = max([1, *[len(str(value)) for value in values.reshape(-1).tolist()]])

    def text(self, value: Any) -> str:
        return str(value).rjust(self.width)


class _Floats:
    """Real numbers (note, rules 1 and 2)."""

    def __init__(self, values: Any) -> None:
        flat = values.reshape(-1).astype(np.float64)
        counting = flat[np.isfinite(flat) & (flat != 0)]
        self.width = 1
        self._spec = ".0f"
        self._whole = True
        if not counting.size:
            return
        self._whole = bool((counting == np.ceil(counting)).all())
        if _is_wide(np.abs(counting)) if _options.sci_mode is None else _options.sci_mode:
            self._spec, self._whole = f".{_options.precision}e", False
        elif not self._whole:
            self._spec = f".{_options.precision}f"
        self.width = max([1, *[len(format(value, self._spec)) for value in counting.tolist()]]) + self._whole

    def text(self, value: float) -> str:
        point = "." if self._whole and math.isfinite(value) else ""
        return (format(value, self._spec) + point).rjust(self.width)


def _is_wide(magnitudes: Any) -> bool:
    """Whether numbers are written in scientific notation."""
    least, most = magnitudes.min(), magnitudes.max()
    with np.errstate(over="ignore"):
        return bool(most / least > _SPREAD or most > _LARGEST or least < _SMALLEST)


class _Complex:
    """Complex numbers, whose parts are written each in a style of their own."""

    def __init__(self, values: Any) -> None:
        self._real, self._imag = _Floats(values.real), _Floats(values.imag)
        self.width = self._real.width + self._imag.width + 1

    def text(self, value: complex) -> str:
        imag = self._imag.text(value.imag).lstrip()
        return f"{self._real.text(value.real)}{'' if imag[0] in '+-' else '+'}{imag}j"
