"""What a region did in its first run: the ops, in order, and the memory from outside that they read.

NOTE [ What a region reads ]
1. Memory that a region reads and did not make itself (parameters, buffers, what a closure holds) must be unchanged when
   the region runs again: its version is kept at the first read. Arguments are saved like a node's inputs and checked
   there.
2. What the region itself writes into parameters, buffers and the user's arrays stays an error: a second run would write
   twice. Activations that it writes into it has made, or will make again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..memory import Storage
from ..saved_tensors.lines import Line, text_of, user_line

_MADE_INSIDE = ("activation", "temporary", "unknown")
_SHOWN = 6


class CheckpointError(RuntimeError):
    """A region did not do the same when it was computed again."""


class Read(NamedTuple):
    """Memory that was there before the region, and how often it had been written when the region read it."""

    storage: Storage
    version: int
    op: str
    site: Line | None


class OpLog:
    """The ops of a region's first run.

    Args:
        arguments: the storages of the region's arguments, which are checked elsewhere.
    """

    def __init__(self, arguments: Iterable[Storage]) -> None:
        self.ops: list[tuple[str, Line | None]] = []
        self._reads: dict[int, Read] = {}
        self._own = {storage.id for storage in arguments}
        self._written: dict[int, Storage] = {}

    def ran(self, op: str, inputs: tuple[Any, ...], results: list[tuple[Any, Storage]]) -> None:
        """Note an op: what it read and what it made."""
        site = user_line()
        self.ops.append((op, site))
        self._note_reads(op, inputs, site)
        self._own.update([storage.id for _, storage in results])

    def writes(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        """Note an op that is about to write into a tensor."""
        site = user_line()
        self.ops.append((f"{op}_", site))
        self._note_reads(f"{op}_", inputs, site)
        self._written[target._storage.id] = target._storage

    def finish(self) -> None:
        """The first run has ended (note, rule 2)."""
        for key, storage in self._written.items():
            read = self._reads.get(key)
            if read is not None and storage.category in _MADE_INSIDE:
                self._reads[key] = read._replace(version=storage.version)
        self._written.clear()
        self._own.clear()

    def check_unchanged(self) -> None:
        """Compare the versions of what the region read.

        Raises:
            RuntimeError: if something was written in place since.
        """
        for storage, version, op, site in self._reads.values():
            if storage.version != version and storage() is not None:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation:"
                    f" a tensor of category {storage.category} was read by {op} in a checkpointed region, at"
                    f" {text_of(site)}, at version {version} and is at version {storage.version} now."
                    " Run backward before changing it, or let the region read a copy (clone())."
                )

    def _note_reads(self, op: str, inputs: tuple[Any, ...], site: Line | None) -> None:
        for value in inputs:
            storage = getattr(value, "_storage", None)
            if storage is not None and storage.version >= 0:
                key = storage.id
                if key not in self._own and key not in self._reads:
                    self._reads[key] = Read(storage, storage.version, op, site)


class Comparison:
    """The ops of a second run beside those of the first.

    Args:
        first: the first run.
        checked: whether another op is an error.
        whole: whether errors list all ops of both runs, instead of those around the difference.
    """

    def __init__(self, first: OpLog, checked: bool, whole: bool) -> None:
        self._first = first
        self._checked = checked
        self._whole = whole
        self.ops: list[tuple[str, Line | None]] = []

    def ran(self, op: str) -> None:
        """Note an op of the second run.

        Raises:
            CheckpointError: if the first run did another one here.
        """
        number = len(self.ops)
        self.ops.append((op, user_line()))
        expected = self._first.ops[number][0] if number < len(self._first.ops) else None
        if self._checked and op != expected:
            raise CheckpointError(
                "stowgrad.checkpoint: another operation ran when the region was computed again\n"
                f"  operation {number}, in forward: {_line(self._first.ops, number)}\n"
                f"  operation {number}, recomputed: {_line(self.ops, number)}\n{self.listing()}"
                "The function must do the same again: look for global state, or randomness from another generator."
            )

    def place(self) -> str:
        """Where the second run is, and where the first was, for an error."""
        number = len(self.ops) - 1
        return (
            f"  in forward: {_line(self._first.ops, number)}\n  recomputed: {_line(self.ops, number)}\n{self.listing()}"
        )

    def listing(self) -> str:
        """The ops of both runs side by side, up to the present one."""
        number = len(self.ops)
        begin = 0 if self._whole else max(number - _SHOWN, 0)
        lines = []
        for here in range(begin, number):
            mark = " " if _name(self._first.ops, here) == _name(self.ops, here) else "!"
            lines.append(f"  {mark} {here:4}  {_name(self._first.ops, here):28}  {_name(self.ops, here)}")
        return "\n".join([f"  {'':6}  {'forward':28}  recomputed", *lines, ""])


def _name(ops: list[tuple[str, Line | None]], number: int) -> str:
    return ops[number][0] if 0 <= number < len(ops) else "nothing"


def _line(ops: list[tuple[str, Line | None]], number: int) -> str:
    return f"{ops[number][0]}, at {text_of(ops[number][1])}" if 0 <= number < len(ops) else "nothing more"
