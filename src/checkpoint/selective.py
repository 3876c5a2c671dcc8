"""Selective checkpointing: a region that keeps what some of its ops computed, and computes the rest again.

NOTE [ Kept results ]
1. The first run's context asks the policy after each op, and keeps all results of an op that it wants: auxiliary ones
   too, or the op would have to run again for them.
2. What is kept is saved like a node's value, with the hooks and policies outside of the region active: they may move or
   compress it. It may be read by several passes.
3. The second run's context counts ops as the first did, and gives an op's results out instead of computing them.
4. Before an op writes into what was kept, it is copied: the second run gets what the op computed.
"""

from __future__ import annotations

import enum
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

from ..autograd import Tensor
from ..autograd.frames import user_level
from ..memory import Storage, storage_of
from ..offload import save_on_cpu
from ..saved_tensors.hooks import HookEntry
from ..saved_tensors.saved_variable import SavedVariable
from ..saved_tensors.state import Under, current
from .region import Emptying


class CheckpointPolicy(enum.Enum):
    """What becomes of an op's results; ``PREFER`` and ``MUST`` do the same."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4


class SelectiveCheckpointContext(NamedTuple):
    """What a policy is told besides the op and its inputs.

    Attributes:
        is_recompute: whether it is the second run; policies are asked in the first only, so it is False.
    """

    is_recompute: bool = False


Decision: TypeAlias = CheckpointPolicy | bool
Policy: TypeAlias = Callable[..., Decision]
_SAVED = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_MATRIX_PRODUCTS = frozenset(
    {
        "addbmm", "addmm", "addmv", "baddbmm", "bmm", "convolution", "einsum", "linear", "matmul", "mm", "mv",
        "scaled_dot_product_attention",
    }
)  # fmt: skip


def keep_matrix_products(ctx: SelectiveCheckpointContext, op: str, *inputs: Any) -> CheckpointPolicy:
    """A policy: keep the results of matrix products, convolutions and attention; compute everything else again.

    >>> keep_matrix_products(SelectiveCheckpointContext(), "linear").name
    'PREFER_SAVE'
    """
    return CheckpointPolicy.PREFER_SAVE if op in _MATRIX_PRODUCTS else CheckpointPolicy.PREFER_RECOMPUTE


def keep_names(*names: str) -> Policy:
    """A policy: keep the results of the ops whose values the program calls by one of these names (`checkpoint_name`).

    >>> keep_names("ffn_in", "scores").names
    ('ffn_in', 'scores')
    """

    def policy(ctx: SelectiveCheckpointContext, op: str, *inputs: Any) -> CheckpointPolicy:
        return CheckpointPolicy.PREFER_RECOMPUTE

    policy.names = names  # type: ignore[attr-defined]
    return policy


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
        return _Keeping(policy, kept, ()), _Giving(kept)
    if not isinstance(policy, Iterable) or isinstance(policy, str):
        raise TypeError(
            f"create_selective_checkpoint_contexts: expected a function or a list of ops, got {type(policy).__name__}"
        )
    names = tuple(_op_name(op) for op in policy)
    return _Keeping(lambda ctx, op, *inputs: op in names, kept, names), _Giving(kept)


def _op_name(op: Any) -> str:
    name = op if isinstance(op, str) else getattr(op, "__name__", getattr(op, "name", None))
    if not isinstance(name, str):
        raise TypeError(
            "create_selective_checkpoint_contexts: expected names of ops or functions in the list, got"
            f" {type(op).__name__}"
        )
    return name


class _Kept:
    """The results of one op (note, rule 2)."""

    def __init__(self, op: str, results: list[tuple[Any, Storage]], hooks: tuple[HookEntry, ...]) -> None:
        self._op = op
        self._saved = []
        with Under(hooks=hooks):
            for number, (array, storage) in enumerate(results):
                tensor = Tensor._wrap(array, storage)
                saved = SavedVariable(tensor, None, -1)
                if hooks:
                    saved.pack(tensor, op, f"result {number}")
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


class _Keeping(HookEntry):
    """Active in the first run (note, rule 1)."""

    follows_ops = True
    takes_values = False

    def __init__(self, policy: Policy, kept: dict[int, _Kept], names: tuple[str, ...]) -> None:
        self._policy = policy
        self._kept = kept
        self._names = names
        self._number = -1
        self._last: tuple[str, list[tuple[Any, Storage]]] | None = None
        self._seen: set[str] = set()
        self._named: set[str] = set()

    def describe(self) -> str:
        return "selective checkpoint"

    def after_op(self, op: str, inputs: tuple[Any, ...], results: list[tuple[Any, Storage]]) -> None:
        self._number += 1
        self._seen.add(op)
        self._last = op, results
        decision = self._policy(SelectiveCheckpointContext(), op, *inputs)
        if isinstance(decision, bool):
            decision = CheckpointPolicy.MUST_SAVE if decision else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(decision, CheckpointPolicy):
            raise TypeError(f"a checkpoint policy must return a CheckpointPolicy or a bool, got {decision!r} for {op}")
        if decision in _SAVED:
            self._keep(op, results, ())
        elif decision is CheckpointPolicy.MUST_CPU_OFFLOAD:
            self._keep(op, results, (save_on_cpu(),))

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        self._number += 1
        self._last = None

    def before_write(self, storage: Storage) -> None:
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
        self._keep(*self._last, ())

    def _keep(self, op: str, results: list[tuple[Any, Storage]], inside: tuple[HookEntry, ...]) -> None:
        entries = current().hooks
        regions = [number for number, entry in enumerate(entries) if isinstance(entry, Emptying)]
        outside = entries[: regions[-1]] if regions else ()
        self._kept[self._number] = _Kept(op, results, (*outside, *inside))

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        self._last = None
        missing = sorted({*self._names} - self._seen | {*getattr(self._policy, "names", ())} - self._named)
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

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        self._number += 1
