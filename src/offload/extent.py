"""A part of an arena's file, and where in memory its value is meanwhile."""

from __future__ import annotations

import threading
from typing import Any

from .pages import HostArray
from .source import Source


class Ahead:
    """Pages of a value that are in memory before they are asked for.

    Attributes:
        pages: where they are, or are read to.
        source: the value's own memory, if they lie there.
        arrived: set when the reading has ended.
    """

    __slots__ = ("__weakref__", "_read", "arrived", "pages", "source")

    def __init__(self, pages: HostArray) -> None:
        self.pages = pages
        self.source: Source | None = None
        self.arrived = threading.Event()
        self._read = False

    @classmethod
    def of(cls, pages: HostArray, source: Source | None) -> Ahead:
        """Those that are there already."""
        ahead = cls(pages[:])  # an array of its own: the other one counts as staging memory while it lives
        ahead.source = source
        ahead.succeed()
        ahead.arrived.set()
        return ahead

    def succeed(self) -> None:
        """Note that they are there."""
        self._read = True

    def is_good(self) -> bool:
        """Whether they are there, and nobody has written there since."""
        return self._read and (self.source is None or not self.source.is_stale())


class Extent:
    """A part of an arena; dropping it frees the part.

    Attributes:
        arena: the arena.
        start: where in the file it begins.
        nbytes: bytes of the value.
        places: see `ReadingOrder`.
        checksum: of its pages, or None if it isn't known.
        staging: the pages in memory, until they are written.
        source: the value's own memory, if that is what is written (NOTE [ Sources ]).
        stale: whether the value was changed while it was written.
        ahead: the pages in memory, when they were read ahead.
        place: ``"disk"``.
    """

    __slots__ = (
        "__weakref__",
        "ahead",
        "arena",
        "checksum",
        "nbytes",
        "places",
        "source",
        "staging",
        "stale",
        "start",
    )

    place = "disk"

    def __init__(self, arena: Any, start: int, nbytes: int) -> None:
        self.arena = arena
        self.nbytes = nbytes
        self.places: tuple[int, ...] = ()
        self.checksum: int | None = None
        self.staging: HostArray | None = None
        self.source: Source | None = None
        self.stale = False
        self.ahead: Ahead | None = None
        self.start = start

    def release(self) -> None:
        """Free the part now."""
        start, self.start = self.start, -1
        self.staging = self.source = self.ahead = None
        if start >= 0:
            self.arena.free(start, self.nbytes)

    def __del__(self) -> None:
        if hasattr(self, "start"):  # Ctrl-C may have come before
            self.release()

    def written(self) -> None:
        """Let the pages go, which are in the file now."""
        self.stale = self.is_stale()
        self.staging = None
        self.source = None

    def is_stale(self) -> bool:
        """Whether the program has written into the value before it was in the file."""
        source = self.source
        return self.stale or (source is not None and source.is_stale())

    def in_memory(self) -> tuple[HostArray | None, Source | None]:
        """The pages that are still to be written, and the source if they lie there, whatever the writer does now."""
        source = self.source  # first: it is dropped last
        pages = self.staging
        return pages, source if source is not None and pages is source.pages else None
