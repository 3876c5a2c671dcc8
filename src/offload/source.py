"""Values that are written to the disk from where they lie.

NOTE [ Sources ]
1. Copying a value first takes the program a third of the time of writing it. So one that fills whole pages of memory
   of its own is written from there, and that memory is kept until it is done.
2. Before the program writes into that memory it asks for it (`mutation.readers`): it waits for the write, or a copy is
   made where the write can't end.
3. A write that doesn't ask raises the version: reading the value raises an error then. What holds parameters and
   gradients is written without being asked for, so it is copied; and so is memory that belongs to the user.
4. Of values that share memory one at a time is written from there; the others are copied.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from ..memory import CPU, Storage, storage_of
from ..saved_tensors import mutation
from ..saved_tensors.payload import PACKED, as_bytes
from .pages import PAGE, HostArray, is_aligned, is_much_for

_CATEGORIES = ("activation", PACKED)


class Source:
    """Memory of a value that is being written to the disk (NOTE [ Sources ]).

    Attributes:
        pages: the memory.
        storage: what holds it.
        let_go: has whoever reads the memory do without it.
    """

    __slots__ = ("__weakref__", "_version", "let_go", "pages", "storage")

    def __init__(self, pages: HostArray, storage: Storage) -> None:
        self.pages = pages
        self.storage = storage
        self.let_go: Callable[[], None] | None = None
        self._version = storage.version

    def is_stale(self) -> bool:
        """Whether the program has written there since."""
        return self.storage.version != self._version


_sources: weakref.WeakValueDictionary[Storage, Source] = weakref.WeakValueDictionary()


def source_of(arrays: Sequence[HostArray]) -> Source | None:
    """The memory of a value, to be written from there; None if it has to be copied (note, rules 1, 3 and 4)."""
    if len(arrays) != 1 or arrays[0].nbytes % PAGE or not arrays[0].flags.c_contiguous or not is_aligned(arrays[0]):
        return None
    storage = storage_of(arrays[0])
    if storage is None or storage.device is not CPU or storage.block is None or storage.category not in _CATEGORIES:
        return None
    if is_much_for(storage.nbytes, arrays[0].nbytes) or storage in _sources:
        return None
    return Source(as_bytes(arrays[0]), storage)


def watch(source: Source, let_go: Callable[[], None]) -> None:
    """Have a function called before the program writes into a source."""
    source.let_go = let_go
    _sources[source.storage] = source
    if _ask not in mutation.readers:
        mutation.readers.append(_ask)


def _ask(storage: Storage) -> None:
    source = _sources.get(storage)
    if source is not None and source.let_go is not None:
        source.let_go()
