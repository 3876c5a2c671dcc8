"""The stack of saved-tensor hooks: what may stand between a value that is saved and the node that reads it.

NOTE [ Hook entries ]
1. Entries are pushed and popped as scopes of the current context. Leaving out of order is an error that names both.
2. Raw pairs (`saved_tensors_hooks`) follow PyTorch: only the innermost entry's pair is applied.
3. Storage policies compose: from the innermost entry outwards, all policies up to the first raw pair are the stages of
   one pipeline, the inner one first. What stands outside that raw pair is shadowed.
4. While a pack or unpack function runs, the entries present at the call are hidden, so that a hook which runs ops can't
   call itself. Entries that the function pushes work.
5. Where hooks are disabled, entering any entry is an error: what was to be packed would be kept, unnoticed. Hooks of a
   single saved value (`SavedVariable.register_hooks`) are no entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..memory import Storage
from . import state


class SavedRecord:
    """What the event stream is told about one saved value.

    Attributes:
        op: name of the op whose node saved it.
        slot: which of the node's saved values it is.
        shape, dtype: of the value.
        raw_bytes: its size.
        resident_bytes: what is kept in memory for it on its behalf; 0 where it shares what another save keeps.
        offloaded_bytes: what is kept for it elsewhere (host or disk).
        is_shared: whether a policy found it in what it had packed for another save.
        storage_id: id of the storage that held it when it was saved.
        policy: what was done: "keep", "hooks", or a policy's description.
        seconds: how long packing took.
    """

    __slots__ = (
        "dtype",
        "is_shared",
        "offloaded_bytes",
        "op",
        "policy",
        "raw_bytes",
        "resident_bytes",
        "seconds",
        "shape",
        "slot",
        "storage_id",
    )

    def __init__(self, op: str, slot: str, array: Any, storage: Storage) -> None:
        self.op = op
        self.slot = slot
        self.shape: tuple[int, ...] = array.shape
        self.dtype = str(array.dtype)
        self.raw_bytes: int = array.nbytes
        self.resident_bytes: int = array.nbytes
        self.offloaded_bytes = 0
        self.is_shared = False
        self.storage_id = storage.id
        self.policy = "keep"
        self.seconds = 0.0


class SavedValue:
    """A value on its way to a policy: an array, the storage that holds it, and who saves it.

    Attributes:
        alive: whether the graph holds the storage anyway: a leaf that requires grad, or a view of one.
    """

    __slots__ = ("alive", "array", "op", "slot", "storage")

    def __init__(self, array: Any, storage: Storage, op: str, slot: str, alive: bool = False) -> None:
        self.array = array
        self.storage = storage
        self.op = op
        self.slot = slot
        self.alive = alive


class Handle(Protocol):
    """What a policy gives back for a value: it owns the packed data, and dropping it frees them."""

    resident_bytes: int
    offloaded_bytes: int
    policy: str

    def load(self) -> Any:
        """The value as an array on the device where it was, in a storage of its pool."""


class HookEntry:
    """One level of the hook stack, entered with ``with``.

    Raises:
        RuntimeError: on enter, where hooks are disabled; on exit, if it is not the innermost entry.
    """

    # Whether it is told of every op that runs on tensors while it is active.
    follows_ops = False
    # Whether values that are saved are its business; others stand in the stack without being seen by them.
    takes_values = True

    def describe(self) -> str:
        """One line that names the entry for people."""
        return type(self).__name__

    def before_op(self, op: str, inputs: tuple[Any, ...]) -> list[tuple[Any, Storage]] | None:
        """Asked for the results of an op, each an array and its storage; None to have it computed."""
        return None

    def after_op(self, op: str, inputs: tuple[Any, ...], results: list[tuple[Any, Storage]]) -> None:
        """Told of an op that has run: its inputs, tensors or numbers, and its results."""

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        """Told that an op is about to write into a tensor, ``target``, which is among its inputs."""

    def named(self, tensor: Any, name: str) -> None:
        """Told that the program calls a tensor by a name."""

    def keep(self, saved: Any) -> None:
        """Told of a `SavedVariable` that no entry has packed: it keeps its value as it is."""

    def before_write(self, storage: Storage) -> None:
        """Told that memory is about to be written in place."""

    def __enter__(self) -> HookEntry:
        before = state.current()
        if before.disabled is not None:
            raise RuntimeError(before.disabled)
        state.set_state(before.with_hooks((*before.hooks, self)))
        return self

    def __exit__(self, *exc_info: object) -> None:
        now = state.current()
        if not now.hooks or now.hooks[-1] is not self:
            innermost = now.hooks[-1].describe() if now.hooks else "none"
            raise RuntimeError(
                "saved-tensor hooks were left out of order\n"
                f"  leaving: {self.describe()}\n  innermost now: {innermost}\nLeave the contexts in reverse order."
            )
        state.set_state(now.with_hooks(now.hooks[:-1]))


class saved_tensors_hooks(HookEntry):  # noqa: N801  # PyTorch's name
    """Pack every tensor that is saved for backward, and unpack it when it is read.

    Args:
        pack_hook: called with a tensor when it is saved, with grad mode off; may return any object. A saved input is
            the original tensor; a saved output is a detached alias of it.
        unpack_hook: called with that object whenever the value is read; must return a tensor of the same shape, dtype
            and device.

    Raises:
        TypeError: on enter, if one of them can't be called.

    Only the innermost pair is applied. What ``pack_hook`` returned is dropped with the saved value, by reference count.

    >>> import stowgrad
    >>> seen = []
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> with saved_tensors_hooks(lambda t: seen.append(t.shape) or t, lambda t: t):
    ...     y = x * x
    >>> len(seen)
    2
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def describe(self) -> str:
        def name(hook: Any) -> str:
            return str(getattr(hook, "__name__", type(hook).__name__))

        return f"saved_tensors_hooks({name(self.pack_hook)}, {name(self.unpack_hook)})"

    def __enter__(self) -> saved_tensors_hooks:
        for which, hook in (("pack_hook", self.pack_hook), ("unpack_hook", self.unpack_hook)):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: {which} must be callable, got {type(hook).__name__}")
        super().__enter__()
        return self


class disable_saved_tensors_hooks:  # noqa: N801  # PyTorch's name
    """Make entering saved-tensor hooks, policies included, an error in a block of code.

    Args:
        error_message: what the RuntimeError says.

    Raises:
        RuntimeError: with that message, on enter, if hooks are active already.

    >>> with disable_saved_tensors_hooks("no hooks in here"):
    ...     saved_tensors_hooks(lambda t: t, lambda t: t).__enter__()
    Traceback (most recent call last):
        ...
    RuntimeError: no hooks in here
    """

    def __init__(self, error_message: str) -> None:
        self._message = error_message
        self._before: list[str | None] = []

    def __enter__(self) -> None:
        before = state.current()
        if before.hooks:
            raise RuntimeError(self._message)
        self._before.append(before.disabled)
        state.set_state(before.with_disabled(self._message))

    def __exit__(self, *exc_info: object) -> None:
        state.set_state(state.current().with_disabled(self._before.pop()))


class PolicyEntry(HookEntry):
    """An entry that moves or changes what is saved; policies compose (note, rule 3)."""

    def save(self, value: SavedValue, outer: tuple[PolicyEntry, ...]) -> Handle | None:
        """Store a value, this policy first and then those around it; None to keep it as it is."""
        raise NotImplementedError

    def shadow(self) -> None:
        """Told of a value that this policy doesn't see, because raw hooks inside it end the chain (note, rule 3)."""


def policies_inside(entries: tuple[HookEntry, ...]) -> tuple[PolicyEntry, ...]:
    """The policies that apply, the innermost first: up to the first raw pair (note, rule 3)."""
    found: list[PolicyEntry] = []
    for entry in reversed(entries):
        if not isinstance(entry, PolicyEntry):
            break
        found.append(entry)
    return tuple(found)


def policies_outside(entries: tuple[HookEntry, ...]) -> tuple[PolicyEntry, ...]:
    """The policies that don't apply: those outside the innermost raw pair (note, rule 3)."""
    for depth in range(len(entries) - 1, -1, -1):
        if not isinstance(entries[depth], PolicyEntry):
            return tuple(entry for entry in entries[:depth] if isinstance(entry, PolicyEntry))
    return ()
