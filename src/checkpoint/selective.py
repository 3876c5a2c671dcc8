"""Selective checkpointing: a region that keeps what some of its ops computed, and computes the rest again.

NOTE [ Kept results ]
1. The first run's context asks the policy after each op, and keeps all results of an op that it wants: auxiliary ones
   too, or the op would have to run again for them. It does so once the second run is known to ask for them: not for an
   op after which nothing is saved.
2. What is kept is saved like a node's value, with the hooks and policies outside of the region active: they may move or
   compress it. It may be read by several passes.
3. The second run's context counts ops as the first did, and gives an op's results out instead of computing them.
4. Before an op writes into what was kept, it is copied: the second run gets what the op computed. So it is in the
   second run, for passes that come later, and in regions around this one, whose places hold what is kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..autograd import Tensor
from ..autograd.frames import user_level
from ..memory import Storage, events, storage_of
from ..offload import save_on_cpu
from ..saved_tensors.hooks import HookEntry
from ..saved_tensors.lines import Line, user_line
from ..saved_tensors.saved_variable import SavedVariable
from ..saved_tensors.state import Under, current
from .listing import saved_for
from .places import KEPT
from .policies import (
    OFFLOADED,
    SAVED,
    CheckpointPolicy,
    ListPolicy,
    Policy,
    SelectiveCheckpointContext,
    op_name,
    unmatched,
)
from .region import Emptying, Region


def checkpoint_name(tensor: Tensor, name: str) -> Tensor:
    """Call a value by a name that policies of selective checkpoints may refer to; returns the tensor.

    The value must be the result of the op that ran last. Outside of such regions it does nothing.

    >>> import stowgrad
    >>> checkpoint_name(stowgrad.ones(1), "ffn_in")
    tensor([1.])
    """
    for follower in current().followers:
        follower.named(tensor, name)
    return tensor


def create_selective_checkpoint_contexts(
    policy: Policy | Iterable[Any], allow_cache_entry_mutation: bool = False
) -> tuple[HookEntry, HookEntry]:
    """The two contexts of a selective checkpoint, for the ``context_fn`` of `checkpoint`.

    Args:
        policy: a function ``policy(ctx, op, *inputs)`` that returns a `CheckpointPolicy` (or a bool: keep or not) for
            the name of an op and its inputs; or the ops to keep, as names or functions (``["linear", stowgrad.exp]``).
        allow_cache_entry_mutation: has no effect: a kept result is copied before it is changed.

    Raises:
        TypeError: if ``policy`` is neither, or an element of it is no name and no function.

    >>> import functools, stowgrad
    >>> from stowgrad.checkpoint import checkpoint
    >>> keep = functools.partial(create_selective_checkpoint_contexts, ["exp"])
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> checkpoint(lambda t: t.exp().sin().exp().sum(), x, context_fn=keep).backward()
    """
    kept: dict[int, _Kept] = {}
    if callable(policy):
        return _Keeping(policy, kept), _Giving(kept)
    if not isinstance(policy, Iterable) or isinstance(policy, str):
        raise TypeError(
            f"create_selective_checkpoint_contexts: expected a function or a list of ops, got {type(policy).__name__}"
        )
    return _Keeping(ListPolicy(map(op_name, policy)), kept), _Giving(kept)


class _Kept:
    """The results of one op (note, rule 2)."""

    def __init__(self, op: str, results: list[tuple[Any, Storage]], hooks: tuple[HookEntry, ...]) -> None:
        self._op = op
        self._saved = []
        with Under(hooks=hooks):
            for number, (array, storage) in enumerate(results):
                tensor = Tensor._wrap(array, storage)
                saved = SavedVariable(tensor, None, -1)
                if hooks or events.observers:
                    saved.pack(tensor, op, f"{KEPT} {number}")
                self._saved.append(saved)

    def results(self) -> list[tuple[Any, Storage]]:
        """The results again.

        Raises:
            RuntimeError: if they were changed without our being told.
        """
        found = []
        for saved in self._saved:
            array = saved.array(self)
            storage = storage_of(array)
            assert storage is not None, "saved values lie in a pool"
            found.append((array, storage))
        return found

    def name(self) -> str:
        """What the version check calls the reader."""
        return f"a selective checkpoint that keeps the result of {self._op}"

    def copy_before_write(self, storage: Storage) -> None:
        """Copy what lies in memory that is about to be written (note, rule 4)."""
        copies: dict[int, tuple[Any, Storage]] = {}
        for saved in self._saved:
            if saved.storage is storage and saved.version == storage.version:
                saved.keep_copy(copies)


class _Wanted(NamedTuple):
    """Results that the policy wants, of an op of which it isn't known yet whether they are needed."""

    number: int
    op: str
    results: list[tuple[Any, Storage]]
    inside: tuple[HookEntry, ...]
    at: int
    saved: int
    line: Line | None


class _Keeping(HookEntry):
    """Active in the first run (note, rule 1)."""

    follows_ops = True
    takes_values = False

    def __init__(self, policy: Policy, kept: dict[int, _Kept]) -> None:
        self._policy = policy
        self._kept = kept
        self._number = -1
        self._last: tuple[str, list[tuple[Any, Storage]]] | None = None
        self._seen: set[str] = set()
        self._named: set[str] = set()
        self._wanted: list[_Wanted] = []
        self._region: Region | None = None
        self._outside: tuple[HookEntry, ...] = ()
        self._host = save_on_cpu()

    def describe(self) -> str:
        return "selective checkpoint"

    def __enter__(self) -> _Keeping:
        entries = current().hooks
        for depth, entry in enumerate(entries):
            if isinstance(entry, Emptying):  # the innermost is the region whose context this is
                self._region, self._outside = entry.region, entries[:depth]
        super().__enter__()
        return self

    def after_op(self, op: str, inputs: tuple[Any, ...], results: list[tuple[Any, Storage]]) -> None:
        self._keep_needed()
        self._number += 1
        self._seen.add(op)
        self._last = op, results
        with Under(hooks=(), grad_enabled=False):  # what the policy computes is no part of the region
            decision = self._policy(SelectiveCheckpointContext(), op, *inputs)
        if isinstance(decision, bool):
            decision = CheckpointPolicy.MUST_SAVE if decision else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(decision, CheckpointPolicy):
            raise TypeError(f"a checkpoint policy must return a CheckpointPolicy or a bool, got {decision!r} for {op}")
        if decision in SAVED:
            self._want(op, results, ())
        elif decision in OFFLOADED:
            self._want(op, results, (self._host,))

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        self._number += 1
        self._last = None

    def before_write(self, storage: Storage) -> None:
        if self._wanted:
            self._keep_all()
            for entry in self._outside:  # they were told before they had it
                entry.before_write(storage)
        for kept in self._kept.values():
            kept.copy_before_write(storage)

    def named(self, tensor: Any, name: str) -> None:
        self._named.add(name)
        if name not in getattr(self._policy, "names", ()):
            return
        if self._last is None or all(storage is not tensor._storage for _, storage in self._last[1]):
            raise RuntimeError(
                f"checkpoint_name({name!r}): the value is not the result of the last operation; name it right after the"
                " operation that computes it"
            )
        self._want(*self._last, ())

    def _want(self, op: str, results: list[tuple[Any, Storage]], inside: tuple[HookEntry, ...]) -> None:
        region = self._region
        at, saved = (len(region.log.ops) - 1, len(region.places)) if region is not None else (-1, 0)
        self._wanted.append(_Wanted(self._number, op, results, inside, at, saved, user_line()))

    def _keep_needed(self) -> None:
        """Keep what was wanted and is needed; the rest may still come to be."""
        region, wanted = self._region, self._wanted
        if region is None:
            self._keep_all()
        elif wanted:
            self._wanted = []
            for item in wanted:
                (self._keep if region.needs_result(item.at, item.saved) else self._wanted.append)(item)

    def _keep_all(self) -> None:
        wanted, self._wanted = self._wanted, []
        for item in wanted:
            self._keep(item)

    def _keep(self, item: _Wanted) -> None:
        with saved_for(item.line):
            self._kept[item.number] = _Kept(item.op, item.results, (*self._outside, *item.inside))

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        if exc_info[0] is None:
            self._keep_needed()
        self._wanted, self._last, self._region = [], None, None
        missing = unmatched(self._policy, self._seen, self._named)
        if missing and exc_info[0] is None:
            known = ", ".join(sorted(self._seen | self._named)) or "none"
            warnings.warn(
                f"selective checkpoint: {', '.join(missing)} matched nothing in the region; it has {known}",
                UserWarning,
                stacklevel=user_level(),
            )


class _Giving(HookEntry):
    """Active in the second run (note, rule 3)."""

    follows_ops = True
    takes_values = False

    def __init__(self, kept: dict[int, _Kept]) -> None:
        self._kept = kept
        self._number = -1

    def describe(self) -> str:
        return "selective checkpoint (recompute)"

    def __enter__(self) -> _Giving:
        self._number = -1
        super().__enter__()
        return self

    def before_op(self, op: str, inputs: tuple[Any, ...]) -> list[tuple[Any, Storage]] | None:
        self._number += 1
        kept = self._kept.get(self._number)
        return None if kept is None else kept.results()

    def before_write(self, storage: Storage) -> None:
        for kept in self._kept.values():
            kept.copy_before_write(storage)

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        self._number += 1
