"""What a region did in its first run: the ops, in order, and the memory from outside that they read.

NOTE [ What a region reads ]
1. Memory that a region reads and did not make itself (parameters, buffers, what a closure holds) must be unchanged when
   the region runs again: its version is kept at the first read. Arguments are saved like a node's inputs and checked
   there.
2. What the region itself writes into parameters, buffers and the user's arrays stays an error: a second run would write
   twice. Activations that it writes into it has made, or will make again.
3. Where the second run reads other memory from outside than the first, because an attribute or a variable has been
   given another tensor, the numbers must be the same. For that, what was read is held, as the closure held it.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..memory import Storage
from ..saved_tensors.lines import Line, text_of, user_line

_MADE_INSIDE = ("activation", "temporary", "unknown")


class CheckpointError(RuntimeError):
    """A region did not do the same when it was computed again."""


class Read(NamedTuple):
    """Memory that was there before the region, and how often it had been written when the region read it."""

    storage: Storage
    version: int
    op: str
    site: Line | None


class Outside(NamedTuple):
    """An input of an op that the region did not make: which one it was, and what."""

    position: int
    storage: Storage
    array: Any


class OpLog:
    """The ops of a region's first run.

    Args:
        arguments: the storages of the region's arguments, which are checked elsewhere.

    Attributes:
        ops: their names and the lines of the program, in order.
        outside: by the number of an op, what it read from outside and is still there after the run (note, rule 3).
    """

    def __init__(self, arguments: Iterable[Storage]) -> None:
        self.ops: list[tuple[str, Line | None]] = []
        self.outside: dict[int, list[Outside]] = {}
        self._reads: dict[int, Read] = {}
        self._seen: list[tuple[int, int, Storage, weakref.ref[Any]]] = []
        self._own = {storage.id for storage in arguments}
        self._written: dict[int, Storage] = {}

    def ran(self, op: str, inputs: tuple[Any, ...], results: list[tuple[Any, Storage]]) -> None:
        """Note an op: what it read and what it made."""
        site = user_line()
        self._note_reads(op, inputs, site)
        self.ops.append((op, site))
        self._own.update([storage.id for _, storage in results])

    def writes(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        """Note an op that is about to write into a tensor."""
        site = user_line()
        self._note_reads(f"{op}_", inputs, site)
        self.ops.append((f"{op}_", site))
        self._written[target._storage.id] = target._storage

    def finish(self) -> None:
        """The first run has ended (note, rules 2 and 3)."""
        for key, storage in self._written.items():
            read = self._reads.get(key)
            if read is not None and storage.category in _MADE_INSIDE:
                self._reads[key] = read._replace(version=storage.version)
        for number, position, storage, reference in self._seen:
            array = reference()
            if array is not None and storage.id not in self._written:
                self.outside.setdefault(number, []).append(Outside(position, storage, array))
        self._seen.clear()
        self._own.clear()

    def check_unchanged(self) -> None:
        """Compare the versions of what the region read.

        Raises:
            RuntimeError: if something was written in place since.
        """
        for key, (storage, version, op, site) in self._reads.items():
            if storage.version != version and storage() is not None:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation:"
                    f" a tensor of category {storage.category} was read by {op} in a checkpointed region, at"
                    f" {text_of(site)}, at version {version} and is at version {storage.version} now."
                    f" {_OWN_WRITE if key in self._written else _FOREIGN_WRITE}"
                )

    def _note_reads(self, op: str, inputs: tuple[Any, ...], site: Line | None) -> None:
        for position, value in enumerate(inputs):
            storage = getattr(value, "_storage", None)
            if storage is None or storage.version < 0 or storage.id in self._own:
                continue
            if storage.id not in self._reads:
                self._reads[storage.id] = Read(storage, storage.version, op, site)
            self._seen.append((len(self.ops), position, storage, weakref.ref(value._array)))


_FOREIGN_WRITE = "Run backward before changing it, or let the region read a copy (clone())."
_OWN_WRITE = (
    "The region itself writes into it, and would do so again: let checkpoint.update_state() make the change, or keep it"
    " out of the region."
)
