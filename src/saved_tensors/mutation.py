"""`allow_mutation_on_saved_tensors`: a saved value is copied right before its memory is written."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..memory import Storage
from .hooks import HookEntry
from .state import current

# Asked before memory is written in place: whoever reads it in the background ends that.
readers: list[Callable[[Storage], object]] = []


class allow_mutation_on_saved_tensors(HookEntry):  # noqa: N801  # PyTorch's name
    """Let tensors be changed in place after they were saved, in a block of code: backward reads the former values.

    Values that are saved in the block are copied when an in-place op is about to write into their memory in the block.
    Saved-tensor hooks and policies inside it come first: what they pack is not this context's business.

    Raises:
        RuntimeError: on enter, inside of another one, or where hooks are disabled.

    >>> import stowgrad
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> with allow_mutation_on_saved_tensors():
    ...     h = x * 3
    ...     y = (h * h).sum()
    ...     _ = h.add_(100)
    ...     y.backward()
    >>> x.grad
    tensor([18., 18.])
    """

    def __init__(self) -> None:
        self._saved: dict[Storage, list[weakref.ref[Any]]] = {}

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        if any(isinstance(entry, allow_mutation_on_saved_tensors) for entry in current().hooks):
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        super().__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        super().__exit__(*exc_info)
        self._saved.clear()

    def keep(self, saved: Any) -> None:
        self._saved.setdefault(saved.storage, []).append(weakref.ref(saved))

    def before_write(self, storage: Storage) -> None:
        copies: dict[int, tuple[Any, Storage]] = {}
        for reference in self._saved.get(storage, ()):
            saved = reference()
            # what was written before this context could see it stays an error
            if saved is not None and saved.storage is storage and saved.version == storage.version:
                saved.keep_copy(copies)
        self._saved.pop(storage, None)


def before_write(storage: Storage) -> None:
    """Tell the active contexts, and who reads it in the background, that memory is about to be written in place.

    Raises:
        MemoryError: if what they keep of it finds no room; nothing is written then.
    """
    for ask in readers:
        ask(storage)
    for entry in current().hooks:
        entry.before_write(storage)
