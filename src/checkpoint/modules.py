"""Checkpointing parts of a model without editing it."""

from __future__ import annotations

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
            module.__dict__["forward"] = _checkpointed(module, options)

    def remove(self) -> None:
        """Let the modules run without checkpoints again; calling it twice has no effect."""
        for module in self._modules:
            module.__dict__.pop("forward", None)
        self._modules = []

    def __enter__(self) -> CheckpointedModules:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def _checkpointed(module: Any, options: dict[str, Any]) -> Callable[..., Any]:
    forward = type(module).forward

    def run(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, module, *args, **options, **kwargs)

    return run


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
    twice = [name for name, module in found.items() if "forward" in module.__dict__]
    if twice:
        raise ValueError(f"checkpointed already: {', '.join(twice)}; remove the first checkpoint before")
    return CheckpointedModules(found, options)
