"""How much memory there is: of the machine, and of the control group that this process runs in."""

from __future__ import annotations

import os
from pathlib import Path

from .sizes import parse_size

LIMIT_VARIABLE = "STOWGRAD_MEMORY_LIMIT"
# What stays free under an automatic limit for the interpreter, libraries and the page cache.
_AUTOMATIC_SHARE = 0.9
_CGROUP_FILES = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def available_bytes() -> int:
    """The memory that this process may use: the machine's, or its control group's where that is less."""
    import psutil

    sizes = [int(psutil.virtual_memory().total)]
    for name in _CGROUP_FILES:
        try:
            text = Path(name).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            sizes.append(int(text))
    return min(sizes)


def resolve_limit(limit: int | str | None) -> int | None:
    """A limit in bytes from a size, ``"auto"`` (nine tenths of `available_bytes`) or None (no limit).

    Raises:
        ValueError, TypeError: for anything else; see `parse_size`.
    """
    if limit is None:
        return None
    if limit == "auto":
        return int(available_bytes() * _AUTOMATIC_SHARE)
    return parse_size(limit)


def limit_from_environment() -> int | None:
    """The host limit that the environment variable ``STOWGRAD_MEMORY_LIMIT`` sets, or None.

    Raises:
        ValueError: if it is set to something that is no size.
    """
    text = os.environ.get(LIMIT_VARIABLE)
    if not text:
        return None
    try:
        return resolve_limit(text)
    except ValueError as error:
        raise ValueError(f"environment variable {LIMIT_VARIABLE}: {error}") from None
