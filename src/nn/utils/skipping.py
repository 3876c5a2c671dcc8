"""Modules without their first values."""

from __future__ import annotations

from typing import Any

from ..modules.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters are not drawn: their memory is as it happens to be.

    Args:
        module_cls: its class, which must take ``device``.
        args, kwargs: its arguments.

    Raises:
        RuntimeError: for something that is no module's class.
        TypeError: if it takes no ``device``.
    """
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    device = kwargs.pop("device", "cpu")
    made: Any = module_cls
    return made(*args, **kwargs, device="meta").to_empty(device=device)
