"""Peaks of a running count, for any number of scopes at a time.

NOTE [ Peaks ]
The pool compares each new count with one number, the highest since any scope last looked. A scope that opens, closes
or is read first folds that number into every open scope and starts it anew. So scopes may nest and overlap, none
resets another, and an allocation pays for one comparison.
"""

from __future__ import annotations

from typing import Protocol


class Counter(Protocol):
    """A running count whose peaks are asked for: a pool."""

    peak_scopes: list[PeakScope]

    def used_bytes(self) -> int: ...

    def fold_peak(self) -> None: ...


class PeakScope:
    """The highest ``used_bytes`` of a pool while a block of code runs.

    Attributes:
        begin_bytes: bytes in use when the scope was opened.
    """

    def __init__(self, pool: Counter) -> None:
        self._pool = pool
        self._peak = 0
        self.begin_bytes = 0

    def open(self) -> PeakScope:
        """Start at the bytes in use now."""
        self._pool.fold_peak()
        self.begin_bytes = self._peak = self._pool.used_bytes()
        self._pool.peak_scopes.append(self)
        return self

    def close(self) -> None:
        """Stop; `peak_bytes` keeps its value. Closing twice has no effect."""
        self._pool.fold_peak()
        if self in self._pool.peak_scopes:
            self._pool.peak_scopes.remove(self)

    def raise_to(self, nbytes: int) -> None:
        """Count a peak of ``nbytes``, if it is the highest yet."""
        if nbytes > self._peak:
            self._peak = nbytes

    @property
    def peak_bytes(self) -> int:
        """The highest number of bytes in use since the scope was opened, up to now or to its end."""
        if self in self._pool.peak_scopes:
            self._pool.fold_peak()
        return self._peak

    def __enter__(self) -> PeakScope:
        return self.open()

    def __exit__(self, *exc_info: object) -> None:
        self.close()
