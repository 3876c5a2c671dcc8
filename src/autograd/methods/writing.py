"""How the methods that write in place are made of ops: ``exp_ = unary_(elementwise.exp)``."""

from __future__ import annotations

from typing import Any

from .. import inplace


def unary_(op: Any) -> Any:
    """The method that replaces a tensor's elements by those of ``op(tensor)``."""

    def method(self: Any) -> Any:
        return inplace.unary_(op, self)

    return _named(method, op.name, "")


def binary_(op: Any, argument: str = "other") -> Any:
    """The method that replaces a tensor's elements by those of ``op(tensor, other)``."""

    def method(self: Any, other: Any) -> Any:
        return inplace.binary_(op, self, other)

    return _named(method, op.name, f", {argument}")


def _named(method: Any, name: str, arguments: str) -> Any:
    method.__name__ = f"{name}_"
    method.__qualname__ = f"Tensor.{name}_"
    method.__doc__ = f"Take ``{name}(self{arguments})`` in place; returns the tensor."
    return method
