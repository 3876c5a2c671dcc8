"""Calling the hooks of a pass, and checking what they return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .variable import Metadata, Variable


def checked(result: Any, given: Any, what: str) -> Any:
    """What a hook returned in place of a gradient, if it is None or a tensor like the one that it got.

    Args:
        result: what it returned.
        given: the gradient as a tensor, or None where none arrived.
        what: names the hook in errors.

    Raises:
        TypeError: if it is neither.
        RuntimeError: if its shape, dtype or device differs.
    """
    if result is None:
        return None
    if not isinstance(result, Variable):
        raise TypeError(f"{what} must return a Tensor or None, got {type(result).__name__}")
    if given is None:
        return result
    if result._array.shape != given._array.shape:
        raise RuntimeError(
            f"{what} has changed the size of the gradient:"
            f" expected {list(given._array.shape)}, got {list(result._array.shape)}"
        )
    if result._array.dtype != given._array.dtype:
        raise RuntimeError(
            f"{what} has changed the type of the gradient: expected {given._array.dtype}, got {result._array.dtype}"
        )
    if result._storage.device is not given._storage.device:
        raise RuntimeError(f"{what} has moved the gradient from {given._storage.device} to {result._storage.device}")
    return result


def _replaced(result: Any, given: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    """What a node's hook returned in place of ``given``.

    Raises:
        TypeError: if it is no tuple, or has something else than tensors and None in it.
        RuntimeError: if its length or a tensor's shape, dtype or device differs, or a tensor stands where was None.
    """
    if not isinstance(result, tuple):
        raise TypeError(f"{what} must return a tuple or None, got {type(result).__name__}")
    if len(result) != len(given):
        raise RuntimeError(
            f"{what} has returned an incorrect number of values (got {len(result)}, expected {len(given)})"
        )
    for number, (value, before) in enumerate(zip(result, given, strict=True)):
        checked(value, before, f"{what}, at position {number},")
        if value is not None and before is None:
            raise RuntimeError(f"{what} can't replace a None gradient with a non-None value, at position {number}")
    return result


def _as_tensors(values: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([None if gradient is None else values.tensor(gradient) for gradient in gradients])


def _as_gradients(values: Any, tensors: tuple[Any, ...]) -> list[Any]:
    return [None if tensor is None else values.of(tensor) for tensor in tensors]


def call_tensor_hook(values: Any, hook: Any, gradient: Any, node: Any) -> Any:
    """What a tensor hook makes of a gradient."""
    given = None if gradient is None else values.tensor(gradient)
    changed = checked(values.call(hook, given), given, f"a tensor hook on {node.name()}")
    return gradient if changed is None else values.of(changed)


def call_pre_hooks(values: Any, node: Any, gradients: list[Any]) -> list[Any]:
    """What the pre-hooks of a node make of the gradients that it is about to get."""
    for hook in tuple(node.node_hooks.pre.values()):
        given = _as_tensors(values, gradients)
        result = values.call(hook, given)
        if result is not None:
            gradients = _as_gradients(values, _replaced(result, given, f"a pre-hook on {node.name()}"))
    return gradients


def call_post_hooks(values: Any, node: Any, results: Sequence[Any], gradients: list[Any]) -> Sequence[Any]:
    """What the post-hooks of a node make of what it has computed."""
    for hook in tuple(node.node_hooks.post.values()):
        given = _as_tensors(values, results)
        result = values.call(hook, given, _as_tensors(values, gradients))
        if result is not None:
            results = _as_gradients(values, _replaced(result, given, f"a hook on {node.name()}"))
    return results


def call_post_accumulate_hooks(values: Any, leaf: Any, meta: Metadata) -> None:
    """Tell those who wait for a leaf's gradient that it is there.

    Raises:
        TypeError: if one returns something.
    """
    for hook in tuple((meta.post_hooks or {}).values()):
        result = values.call(hook, leaf)
        if result is not None:
            raise TypeError(
                f"a post-accumulate-grad hook must return None, got {type(result).__name__}: change .grad itself"
            )
