"""Byte counts as people write and read them."""

from __future__ import annotations

import re

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
    "TIB": 1 << 40,
}
_PATTERN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_size(size: int | str) -> int:
    """Bytes from an integer or a text such as ``"1.5 GiB"`` (binary) or ``"64 MB"`` (decimal).

    Raises:
        ValueError: for a negative number or a text that is no size.
        TypeError: for anything else.

    >>> parse_size("1.5 GiB")
    1610612736
    """
    if isinstance(size, bool) or not isinstance(size, int | str):
        raise TypeError(f"expected a size in bytes or a text such as '1.5 GiB', got {type(size).__name__}")
    if isinstance(size, int):
        if size < 0:
            raise ValueError(f"a size in bytes cannot be negative, got {size}")
        return size
    match = _PATTERN.fullmatch(size)
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(f"expected a size such as '1.5 GiB', '64 MB' or '4096', got {size!r}")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def format_size(nbytes: int) -> str:
    """A byte count in binary units with one decimal.

    >>> format_size(1610612736), format_size(12)
    ('1.5 GiB', '12 B')
    """
    magnitude = float(abs(nbytes))
    sign = "-" if nbytes < 0 else ""
    if magnitude < 1024:
        return f"{sign}{int(magnitude)} B"
    for unit in ("KiB", "MiB", "GiB"):
        magnitude /= 1024
        if magnitude < 1024 or unit == "GiB":
            break
    return f"{sign}{magnitude:.1f} {unit}"
