"""The event stream: who watches memory, and what they are told.

Everything that reports is behind ``if events.observers``, so a program that nobody watches pays one look at an empty
tuple. Observers may run inside a lease: they must not allocate tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .storage import Storage


class Observer:
    """Base class of those who watch: override what you need.

    Kinds of spans that ``begin`` and ``end`` report: ``"op"`` (a forward op, subject: its record), ``"node"`` (a node
    of the graph in backward, subject: the node), ``"phase"``, ``"module"`` (subject: the module) and ``"step"``.
    """

    def allocated(self, storage: Storage) -> None:
        """A storage was leased or adopted; its bytes are counted already."""

    def freed(self, storage: Storage) -> None:
        """The last view of a storage died; its bytes are no longer counted.

        Told when the pool is next asked for anything, before that is answered.
        """

    def relabelled(self, storage: Storage, old_category: str) -> None:
        """A storage moved from one category to another."""

    def begin(self, kind: str, name: str, subject: object = None) -> None:
        """A span opened on this thread."""

    def end(self, kind: str, name: str) -> None:
        """The innermost span of that kind and name closed."""

    def recorded(self, node: Any) -> None:
        """A node was added to the graph, inside the span of its op."""

    def saved(self, record: Any) -> None:
        """A value was saved for backward (see ``saved_tensors.hooks.SavedRecord``)."""

    def unpacked(self, record: Any, seconds: float) -> None:
        """A saved value was read for backward."""


observers: tuple[Observer, ...] = ()


def add_observer(observer: Observer) -> None:
    """Report to ``observer`` from now on; adding it twice has no effect."""
    global observers
    if observer not in observers:
        observers = (*observers, observer)


def remove_observer(observer: Observer) -> None:
    """Stop reporting to ``observer``; removing one that isn't there has no effect."""
    global observers
    observers = tuple(known for known in observers if known is not observer)


@contextlib.contextmanager
def span(kind: str, name: str, subject: object = None) -> Iterator[None]:
    """Report the begin and the end of a block of code to those who watch when it begins."""
    watching = observers
    for observer in watching:
        observer.begin(kind, name, subject)
    try:
        yield
    finally:
        for observer in watching:
            observer.end(kind, name)
