"""`print_saved`: what a function would keep for backward."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple, TextIO

from ..memory import events, format_size
from ..saved_tensors.hooks import SavedRecord
from ..saved_tensors.lines import Line, text_of, user_line


class SavedLine(NamedTuple):
    """One saved value.

    Attributes:
        op, slot: who keeps it, and as what.
        shape, dtype: of the value.
        raw_bytes: its size.
        kept_bytes: what is kept for it under the policy, in memory; 0 for what shares another's.
        moved_bytes: what is kept for it elsewhere.
        policy: what was done with it.
        site: the line of the program.
    """

    op: str
    slot: str
    shape: tuple[int, ...]
    dtype: str
    raw_bytes: int
    kept_bytes: int
    moved_bytes: int
    policy: str
    site: str


# The line of the program to name for values that are saved later than it runs.
_line: ContextVar[Line | None] = ContextVar("stowgrad_saved_line", default=None)


@contextmanager
def saved_for(line: Line | None) -> Iterator[None]:
    """Say for a block of code which line of the program saves."""
    token = _line.set(line)
    try:
        yield
    finally:
        _line.reset(token)


class _Lister(events.Observer):
    def __init__(self) -> None:
        self.lines: list[SavedLine] = []

    def saved(self, record: SavedRecord) -> None:
        self.lines.append(
            SavedLine(
                record.op,
                record.slot,
                record.shape,
                record.dtype,
                record.raw_bytes,
                record.resident_bytes,
                record.offloaded_bytes,
                record.policy,
                text_of(_line.get() or user_line()),
            )
        )


def print_saved(
    function: Callable[..., Any],
    *args: Any,
    policy: AbstractContextManager[Any] | None = None,
    file: TextIO | None = None,
    **kwargs: Any,
) -> list[SavedLine]:
    """Call a function and print what its operations keep for backward: op, shape, bytes before and after, source line.

    Args:
        function: called with the other arguments, with gradients on.
        policy: a policy, a context of hooks, or the like, that is active meanwhile.
        file: where to print; standard output if None.

    Returns:
        The lines, one for each saved value, in order.

    >>> import stowgrad
    >>> lines = print_saved(lambda x: x.exp(), stowgrad.ones(4, requires_grad=True))  # doctest: +ELLIPSIS
    op   slot    shape  dtype    raw   kept  moved  policy  at
    exp  result  [4]    float32  16 B  16 B  0 B    keep    <doctest...
    total: 1 value, 16 B raw, 16 B kept, 0 B moved
    """
    lister = _Lister()
    with policy if policy is not None else nullcontext():
        events.add_observer(lister)
        try:
            result = function(*args, **kwargs)
        finally:
            events.remove_observer(lister)
    del result
    rows = [("op", "slot", "shape", "dtype", "raw", "kept", "moved", "policy", "at")]
    rows += [
        (
            line.op,
            line.slot,
            str(list(line.shape)),
            line.dtype,
            format_size(line.raw_bytes),
            format_size(line.kept_bytes),
            format_size(line.moved_bytes),
            line.policy,
            line.site,
        )
        for line in lister.lines
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    target = sys.stdout if file is None else file
    for row in rows:
        target.write("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n")
    raw, kept, moved = (
        format_size(sum(getattr(line, field) for line in lister.lines))
        for field in ("raw_bytes", "kept_bytes", "moved_bytes")
    )
    count = len(lister.lines)
    target.write(f"total: {count} value{'' if count == 1 else 's'}, {raw} raw, {kept} kept, {moved} moved\n")
    return lister.lines
