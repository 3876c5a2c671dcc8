"""Checkpointing parts of a model without editing it."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

from .checkpoint import checkpoint


class CheckpointedModules:
    """Undoes `checkpoint_modules`: by `remove`, or at the end of a ``with`` block.

    Attributes:
        names: of the modules that are checkpointed.
    """

    def __init__(self, modules: dict[str, Any], options: dict[str, Any]) -> None:
        self.names = tuple(modules)
        self._modules = list(modules.values())
        for module in self._modules:
            module.__dict__["forward"] = _Checkpointed(module, module.__dict__.get("forward"), options)

    def remove(self) -> None:
        """Let the modules run without checkpoints again; calling it twice has no effect."""
        for module in self._modules:
            found = module.__dict__.pop("forward", None)
            former = found.former if isinstance(found, _Checkpointed) else found
            if former is not None:
                module.__dict__["forward"] = former
        self._modules = []

    def __enter__(self) -> CheckpointedModules:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


class _Checkpointed:
    """In place of a module's ``forward``. It is the module's, so it holds that weakly; copies are those of its copy.

    Attributes:
        former: what the module had in its own dict as ``forward`` before; None if its class has it.
    """

    def __init__(self, module: Any, former: Callable[..., Any] | None, options: dict[str, Any]) -> None:
        self.former = former
        self._module = weakref.ref(module)
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.former is not None:
            return checkpoint(self.former, *args, **self._options, **kwargs)
        module: Any = self._module()
        return checkpoint(type(module).forward, module, *args, **self._options, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Checkpointed:
        # The module is being copied: its copy is in the memo.
        module, former, options = copy.deepcopy((self._module(), self.former, self._options), memo)
        return _Checkpointed(module, former, options)

    def __reduce__(self) -> Any:
        return _Checkpointed, (self._module(), self.former, self._options)


def checkpoint_modules(
    model: Any, names: str | Iterable[str] = (), types: type | tuple[type, ...] = (), **options: Any
) -> CheckpointedModules:
    """Checkpoint each call of some submodules of a model.

    Args:
        model: a module.
        names: the submodules by name, with ``*`` and ``?`` as in file names: ``"blocks.*"``; a part of a chosen module
            is not checkpointed by itself.
        types: the submodules by class.
        options: of `checkpoint`.

    Returns:
        What undoes it.

    Raises:
        ValueError: if nothing matches, or a module is checkpointed already; the message lists what there is.

    >>> from stowgrad import nn
    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.GELU()))
    >>> with checkpoint_modules(model, types=nn.Linear) as checkpointed:
    ...     checkpointed.names
    ('0', '1.0')
    """
    patterns = (names,) if isinstance(names, str) else tuple(names)
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        chosen = isinstance(module, types) or any(fnmatchcase(name, pattern) for pattern in patterns)
        if name and chosen and not any(name.startswith(f"{outer}.") for outer in found):
            found[name] = module
    if not found:
        known = ", ".join(f"{name} ({type(module).__name__})" for name, module in model.named_modules() if name)
        raise ValueError(f"checkpoint_modules: nothing matches; the model has {known or 'no submodules'}")
    return _started(found, options)


def checkpoint_every(n: int, modules: Iterable[Any], **options: Any) -> CheckpointedModules:
    """Checkpoint each call of every ``n``-th of some modules, from the first on: of the blocks of a model, say.

    Args:
        n: 1 for all of them, 2 for every second one.
        modules: a `ModuleList`, a `Sequential` or a list.
        options: of `checkpoint`.

    Returns:
        What undoes it.

    Raises:
        ValueError: if ``n`` is not positive, there are no modules, or one is checkpointed already.

    >>> from stowgrad import nn
    >>> blocks = nn.ModuleList([nn.Linear(2, 2) for _ in range(5)])
    >>> checkpoint_every(2, blocks).names
    ('0', '2', '4')
    """
    if n < 1:
        raise ValueError(f"checkpoint_every: n must be at least 1, got {n}")
    found = {str(number): module for number, module in enumerate(modules) if number % n == 0}
    if not found:
        raise ValueError("checkpoint_every: there are no modules")
    return _started(found, options)


def _started(found: dict[str, Any], options: dict[str, Any]) -> CheckpointedModules:
    twice = [name for name, module in found.items() if isinstance(module.__dict__.get("forward"), _Checkpointed)]
    if twice:
        raise ValueError(f"checkpointed already: {', '.join(twice)}; remove the first checkpoint before")
    return CheckpointedModules(found, options)
