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

from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any

from . import modules, state
from .codecs import Compact
from .conditions import (
    DECLINED,
    IS_SMALL,
    NO_DATA,
    Link,
    Names,
    conditions_for,
    size_condition,
)
from .hooks import Handle, PolicyEntry, SavedValue
from .layout import Layout, address_of_owner, elements_of, layout_of
from .lines import user_line
from .payload import INTERFACE_VERSION, Payload, Site, Stage
from .report import PolicyReport, SiteReport
from .sharing import PackedHandle, Piece, unit_for
from .statistics import Counters, PolicyStatistics, Stored

# A value holds too much if its storage is larger than this and than this many times the value (note, rule 4).
_CROWDED_BYTES = 64 << 10
_CROWDED_FACTOR = 4
_COMPACT = Compact()


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
            if stage.interface != INTERFACE_VERSION:
                raise TypeError(
                    f"Policy: stage {stage.name!r} is written for version {stage.interface} of the interface, and this"
                    f" is version {INTERFACE_VERSION}; see docs/writing-a-policy.md for what changed"
                )
        conditions = size_condition(min_bytes)
        self._links = tuple(Link(stage, conditions, parameters) for stage in stages)
        self._counters = Counters()

    @classmethod
    def _of(cls, links: Iterable[Link]) -> Policy:
        policy = Policy()
        policy._links = tuple(links)
        return policy

    def __or__(self, other: object) -> Policy:
        if not isinstance(other, Policy):
            return NotImplemented
        return self._of(link.fresh() for link in (*self._links, *other._links))

    def where(
        self,
        *,
        min_bytes: int | str = 0,
        dtype: Any = None,
        op: Names | None = None,
        slot: Names | None = None,
        module: modules.Modules | None = None,
    ) -> Policy:
        """The same policy for some values only; the others are left to the policies around it, or kept.

        Args:
            min_bytes: at least this size, in bytes or as ``"1 MiB"``.
            dtype: one dtype or several.
            op: the op that saves: a name, several, or a function of the name.
            slot: which of the op's saved values: a name, several, or a function of the name.
            module: only inside of a module: its path below the outermost module that is called while the policy is
                active (``"blocks.3"``; ``*`` stands for one part, as in ``"blocks.*.attn"``), the module itself,
                several of them, or a function of the innermost module's path.

        The result counts for itself; see `statistics`.
        """
        added = conditions_for(min_bytes, dtype, op, slot, module)
        return self._of(link.fresh(*added) for link in self._links)

    def attach(self, module: Any) -> modules.Attachment:
        """Have the policy active whenever a module is called, or each of several; also when a checkpoint runs it again.

        Args:
            module: a module, a list of modules, or a ``ModuleList`` or ``ModuleDict``, which stands for its modules.

        Returns:
            A handle whose ``detach()`` ends that; it is a context manager, too.

        Raises:
            TypeError: for anything else.
            ValueError: for no module at all.
        """
        return modules.attach(self, module)

    def describe(self) -> str:
        """What it does, in the order of packing, with the bound of what is lossy."""
        return " | ".join(link.describe() for link in self._links) or "keep"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.describe()}>"

    def statistics(self) -> PolicyStatistics:
        """What it has done so far."""
        return self._counters.snapshot()

    def report(self) -> PolicyReport:
        """What it has done so far at each call site, and what of it had no effect; printed, it is a table."""
        found = [SiteReport.of(site, figures) for site, figures in self._counters.sites().items()]
        found.sort(key=lambda site: -site.raw_bytes)
        idle = [text for link in self._links for text in link.without_effect()] if found else ["nothing was saved"]
        return PolicyReport(self.describe(), tuple(found), tuple(dict.fromkeys(idle)))

    def synchronize(self) -> None:
        """Wait until everything that was saved has arrived where it is stored.

        Raises:
            OSError, RuntimeError: if something in the background failed; the values that it failed for are in memory.
        """
        for link in self._links:
            link.stage.synchronize()

    def shadow(self) -> None:
        """Count a value that raw hooks inside this policy took."""
        self._counters.shadowed += 1

    def __enter__(self) -> Policy:
        super().__enter__()
        modules.follow(1)
        return self

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        modules.follow(-1)

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
        site = Site(value.op, value.slot, modules.current_path(), user_line())
        stored = _store(value, [link for policy in chain for link in policy._links], counters, site)
        seconds = perf_counter() - start
        if isinstance(stored, str):
            for of in counters:
                of.keep(site, stored, value.array.nbytes, seconds)
            return beyond[0].save(value, beyond[1:]) if beyond else None
        for of in counters:
            if stored.shared:
                of.share(site, seconds)
            else:
                of.packed(site, stored.policy, seconds)
        return stored


def set_default_policy(policy: Policy | None) -> None:
    """Have a policy active everywhere, outside of all others: in this thread, and in those that are started later.

    Args:
        policy: the policy, or None for none, as at the start.

    Raises:
        TypeError: for anything else.

    Call it where no context manager of the library is active: leaving one restores what was when it was entered.

    >>> from stowgrad.saved_tensors import Cast
    >>> set_default_policy(Cast("bfloat16"))
    >>> set_default_policy(None)
    """
    if policy is not None and not isinstance(policy, Policy):
        raise TypeError(f"set_default_policy: expected a policy or None, got {type(policy).__name__}")
    before = state.default_hooks()
    after = () if policy is None else (policy,)
    hooks = state.current().hooks
    inner = hooks[len(before) :] if hooks[: len(before)] == before else hooks
    state.set_default_hooks(after)
    state.set_state(state.current().with_hooks((*after, *inner)))
    modules.follow(len(after) - len(before))


def _store(value: SavedValue, links: Sequence[Link], counters: tuple[Counters, ...], site: Site) -> PackedHandle | str:
    """The handle on what was stored, or why nothing was."""
    array, storage = value.array, value.storage
    if storage.device.type == "meta" or array.size == 0:
        return NO_DATA
    meant = []
    reason = NO_DATA
    for link in links:
        refused = link.refuses(value)
        if refused is None:
            meant.append(link)
        else:
            reason = refused
    if not meant:
        return reason
    # this question spares a small value of its own the search for shared data: 10 us to 3
    if storage.nbytes < _CROWDED_BYTES and all(storage.nbytes < link.least for link in meant):
        for link in meant:
            link.takes(storage.nbytes)
        return IS_SMALL
    origin = address_of_owner(storage())
    layout = layout_of(array, origin)
    takers = [link for link in meant if link.takes(layout.nbytes)]
    dtype = array.dtype if any(link.stage.lossy for link in meant) else None
    unit = unit_for((storage.id, storage.version, tuple(link.stage for link in meant), dtype), storage.device)
    piece = unit.find(layout)
    if piece is not None and (piece.payload.exact or len(takers) == len(meant)):
        piece.payload.undo[-1].stage.saved_again(piece.payload)
        return PackedHandle(piece, array, origin, shared=True)
    crowded = storage.nbytes >= max(_CROWDED_BYTES, _CROWDED_FACTOR * layout.nbytes)
    if not takers and not crowded:
        return IS_SMALL
    payload = _pack(value, layout, takers, site)
    if payload is None:
        return DECLINED
    piece = Piece(unit, layout, payload, Stored(counters, layout.nbytes, payload, site))
    unit.add(piece)
    return PackedHandle(piece, array, origin, shared=False)


def _pack(value: SavedValue, layout: Layout, links: Sequence[Link], site: Site) -> Payload | None:
    """The value after all stages that want it; None if none does."""
    payload = Payload.of(elements_of(value.array, layout), value.storage.device)
    if not links:
        return _COMPACT.pack(payload, site)
    for link in links:
        link.seen += 1
        if payload.undo:
            payload.undo[-1].stage.settle(payload)
        packed = link.stage.pack(payload, site)
        if packed is not None:
            link.took += 1
            payload = packed
    return payload if payload.undo else None
