"""`Policy`: a pipeline of stages that saved values go through, as a context manager.

NOTE [ Policies ]
1. ``a | b`` packs with ``a`` first. Nested contexts are the same pipeline, the inner policy being the left part.
2. What lies in a parameter or a buffer stays where it is, however it was viewed: the storage decides. The parameter
   lives on anyway, so a copy would only add to it. ``parameters=True`` packs those too.
3. A value that every stage declines is kept as it is, and its version is checked when it is read.
4. A value below ``min_bytes`` is kept, unless it is a small part of a large storage: then its elements are copied, so
   that it doesn't hold the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ..memory import format_size, parse_size
from .codecs import Compact
from .hooks import Handle, PolicyEntry, SavedValue
from .layout import Layout, address_of_owner, elements_of, layout_of
from .payload import Payload, Site, Stage
from .sharing import PackedHandle, Piece, unit_for
from .statistics import Counters, PolicyStatistics, Stored

# Which names a condition lets through: one, several, or a function that decides.
Names: TypeAlias = str | Iterable[str] | Callable[[str], bool]

_KEPT_CATEGORIES = ("parameter", "buffer")
# A value holds too much if its storage is larger than this and than this many times the value (note, rule 4).
_CROWDED_BYTES = 64 << 10
_CROWDED_FACTOR = 4
_COMPACT = Compact()


@dataclass(frozen=True, slots=True)
class Condition:
    """What `Policy.where` asks of a value; None asks nothing."""

    min_bytes: int = 0
    dtypes: tuple[np.dtype[Any], ...] | None = None
    op: Callable[[str], bool] | None = None
    slot: Callable[[str], bool] | None = None
    text: str = ""

    def admits(self, value: SavedValue) -> bool:
        """Whether the value meets it, its size aside."""
        return (
            (self.dtypes is None or value.array.dtype in self.dtypes)
            and (self.op is None or self.op(value.op))
            and (self.slot is None or self.slot(value.slot))
        )


class Link(NamedTuple):
    """A stage in a pipeline, and the values that it is for."""

    stage: Stage
    conditions: tuple[Condition, ...]
    parameters: bool

    def admits(self, value: SavedValue) -> bool:
        """Whether the stage is for this value, its size aside."""
        if not self.parameters and value.storage.category in _KEPT_CATEGORIES:
            return False
        if not self.stage.serves(value.storage.device):
            return False
        return all(condition.admits(value) for condition in self.conditions)

    def takes(self, nbytes: int) -> bool:
        """Whether the stage is for values of that size."""
        return all(nbytes >= condition.min_bytes for condition in self.conditions)

    def describe(self) -> str:
        """The stage and its conditions."""
        texts = [condition.text for condition in self.conditions if condition.text]
        return f"{self.stage.describe()} where {', '.join(texts)}" if texts else self.stage.describe()


class Policy(PolicyEntry):
    """Stores what is saved for backward in another form or place, while its context is active.

    Args:
        stages: what to do, in the order of packing.
        min_bytes: values smaller than this are left alone; bytes or a text such as ``"64 KiB"``.
        parameters: also pack what lies in parameters and buffers.

    Policies compose with ``|`` and by nesting (NOTE [ Policies ]).

    >>> from stowgrad.saved_tensors import Cast, Compress
    >>> print((Cast("bfloat16") | Compress("zstd")).where(op="gelu").describe())
    bfloat16 (lossy: relative error at most 2**-8) where at least 4.0 KiB, op gelu | zstd, level 1 where at least \
64.0 KiB, op gelu
    """

    def __init__(self, *stages: Stage, min_bytes: int | str = 0, parameters: bool = False) -> None:
        for stage in stages:
            if not isinstance(stage, Stage):
                raise TypeError(f"Policy: expected stages, got {type(stage).__name__}; policies are composed with |")
        conditions = _size_condition(min_bytes)
        self._links = tuple(Link(stage, conditions, parameters) for stage in stages)
        self._counters = Counters()

    @classmethod
    def _of(cls, links: tuple[Link, ...]) -> Policy:
        policy = Policy()
        policy._links = links
        return policy

    def __or__(self, other: object) -> Policy:
        if not isinstance(other, Policy):
            return NotImplemented
        return self._of((*self._links, *other._links))

    def where(
        self,
        *,
        min_bytes: int | str = 0,
        dtype: Any = None,
        op: Names | None = None,
        slot: Names | None = None,
    ) -> Policy:
        """The same policy for some values only; the others are left to the policies around it, or kept.

        Args:
            min_bytes: at least this size, in bytes or as ``"1 MiB"``.
            dtype: one dtype or several.
            op: the op that saves: a name, several, or a function of the name.
            slot: which of the op's saved values: a name, several, or a function of the name.

        The result counts for itself; see `statistics`.
        """
        conditions = list(_size_condition(min_bytes))
        if dtype is not None:
            several = dtype if isinstance(dtype, list | tuple | set | frozenset) else (dtype,)
            dtypes = tuple(np.dtype(one) for one in several)
            conditions.append(Condition(dtypes=dtypes, text=f"dtype {' or '.join(str(one) for one in dtypes)}"))
        if op is not None:
            conditions.append(Condition(op=_predicate(op), text=f"op {_names_text(op)}"))
        if slot is not None:
            conditions.append(Condition(slot=_predicate(slot), text=f"slot {_names_text(slot)}"))
        added = tuple(conditions)
        return self._of(tuple(link._replace(conditions=(*link.conditions, *added)) for link in self._links))

    def describe(self) -> str:
        """What it does, in the order of packing, with the bound of what is lossy."""
        return " | ".join(link.describe() for link in self._links) or "keep"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.describe()}>"

    def statistics(self) -> PolicyStatistics:
        """What it has done so far."""
        return self._counters.snapshot()

    def shadow(self) -> None:
        """Count a value that raw hooks inside this policy took."""
        self._counters.shadowed += 1

    def __enter__(self) -> Policy:
        super().__enter__()
        return self

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, value: SavedValue, outer: tuple[PolicyEntry, ...]) -> Handle | None:
        """Store a value, with this policy's stages first and then those of the policies around it.

        Returns:
            The handle that owns what was stored, or None if the value is to be kept as it is.

        Raises:
            OSError, MemoryError: if it can't be stored; nothing is left of the attempt.
        """
        start = perf_counter()
        chain = [self]
        for depth, entry in enumerate(outer):
            if not isinstance(entry, Policy):
                beyond = outer[depth:]
                break
            if entry not in chain:
                chain.append(entry)
        else:
            beyond = ()
        counters = tuple(policy._counters for policy in chain)
        handle = _store(value, [link for policy in chain for link in policy._links], counters)
        seconds = perf_counter() - start
        for of in counters:
            of.pack_seconds += seconds
            of.kept += handle is None
        if handle is None and beyond:
            return beyond[0].save(value, beyond[1:])
        return handle


def _store(value: SavedValue, links: Sequence[Link], counters: tuple[Counters, ...]) -> PackedHandle | None:
    array, storage = value.array, value.storage
    if storage.device.type == "meta" or array.size == 0:
        return None
    links = [link for link in links if link.admits(value)]
    # the second question spares a small value of its own the search for shared data: 10 us to 3
    if not links or (storage.nbytes < _CROWDED_BYTES and not any(link.takes(storage.nbytes) for link in links)):
        return None
    origin = address_of_owner(storage())
    layout = layout_of(array, origin)
    stages = tuple(link.stage for link in links if link.takes(layout.nbytes))
    dtype = array.dtype if any(link.stage.lossy for link in links) else None
    unit = unit_for((storage.id, storage.version, tuple(link.stage for link in links), dtype), storage.device)
    piece = unit.find(layout)
    if piece is not None and (piece.payload.exact or len(stages) == len(links)):
        for of in counters:
            of.shared += 1
        return PackedHandle(piece, array, origin, shared=True)
    if not stages and storage.nbytes >= max(_CROWDED_BYTES, _CROWDED_FACTOR * layout.nbytes):
        stages = (_COMPACT,)
    payload = _pack(value, layout, stages)
    if payload is None:
        return None
    piece = Piece(unit, layout, payload, Stored(counters, layout.nbytes, payload))
    unit.add(piece)
    return PackedHandle(piece, array, origin, shared=False)


def _pack(value: SavedValue, layout: Layout, stages: tuple[Stage, ...]) -> Payload | None:
    """The value after all stages that want it; None if none does."""
    site = Site(value.op, value.slot)
    payload = Payload.of(elements_of(value.array, layout), value.storage.device)
    for stage in stages:
        payload = stage.pack(payload, site) or payload
    return payload if payload.undo else None


def _size_condition(min_bytes: int | str) -> tuple[Condition, ...]:
    size = parse_size(min_bytes)
    return (Condition(min_bytes=size, text=f"at least {format_size(size)}"),) if size else ()


def _predicate(names: Names) -> Callable[[str], bool]:
    if isinstance(names, str):
        return names.__eq__
    if callable(names):
        return names
    return frozenset(names).__contains__


def _names_text(names: Names) -> str:
    if isinstance(names, str):
        return names
    if callable(names):
        return f"by {getattr(names, '__name__', type(names).__name__)}"
    return " or ".join(sorted(names))
