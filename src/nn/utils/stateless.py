"""Calling a module with other tensors in place of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from ..modules.module import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers; gradients flow to those.

    Args:
        module: the module, which stays as it is.
        parameter_and_buffer_dicts: tensors by dotted name, or several such dicts. What the module assigns to a buffer
            during the call is put into a single dict.
        args: the argument of the call, or a tuple of them.
        kwargs: its keyword arguments.
        tie_weights: whether a parameter that the module has under several names is replaced under all of them, by the
            tensor given for one.
        strict: whether all names must match.

    Raises:
        RuntimeError: under ``strict``, naming what is missing and unexpected.
        ValueError: if dicts have a name in common, or tensors for the same parameter differ.
        TypeError: if they are no dicts.

    >>> import stowgrad
    >>> layer = stowgrad.nn.Linear(2, 1, bias=False)
    >>> functional_call(layer, {"weight": stowgrad.ones(1, 2)}, stowgrad.ones(2))
    tensor([2.])
    """
    tensors = _merged(parameter_and_buffer_dicts)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _replaced(module, tensors, tie_weights, strict) as places:
        try:
            return module(*args, **(kwargs or {}))
        finally:
            if isinstance(parameter_and_buffer_dicts, dict):
                for name, (held, own) in places.items():
                    if name in parameter_and_buffer_dicts and own in held:
                        parameter_and_buffer_dicts[name] = held[own]


def _merged(given: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return dict(given)
    if not isinstance(given, Sequence) or not all(isinstance(part, Mapping) for part in given):
        raise TypeError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts,"
            f" but got {type(given).__name__}"
        )
    merged: dict[str, Any] = {}
    for part in given:
        repeated = merged.keys() & part.keys()
        if repeated:
            raise ValueError(
                f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        merged.update(part)
    return merged


# For each dotted name the dict of a module that holds the tensor, and its name there.
_Places: TypeAlias = dict[str, tuple[dict[str, Any], str]]


def _places(module: Module) -> _Places:
    found: _Places = {}
    for path, owner in module.named_modules(remove_duplicate=False):
        for held in (owner._parameters, owner._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    found[f"{path}.{name}" if path else name] = held, name
    return found


@contextmanager
def _replaced(module: Module, tensors: dict[str, Any], tie_weights: bool, strict: bool) -> Iterator[_Places]:
    """Other tensors in a module, for as long as the context lasts."""
    places = _places(module)
    if tie_weights:
        tensors = _tied(places, tensors)
    missing = [name for name in places if name not in tensors]
    unexpected = [name for name in tensors if name not in places]
    if strict and (missing or unexpected):
        raise RuntimeError(
            f"Error(s) in functional_call for {type(module).__name__}: missing key(s) {missing},"
            f" unexpected key(s) {unexpected}"
        )
    before = {name: held[own] for name, (held, own) in places.items()}
    try:
        for name, tensor in tensors.items():
            if name in places:
                held, own = places[name]
                held[own] = tensor
        yield places
    finally:
        for name, (held, own) in places.items():
            held[own] = before[name]


def _tied(places: _Places, tensors: dict[str, Any]) -> dict[str, Any]:
    """The tensors, also under the other names of the parameters that they stand for."""
    names: dict[int, list[str]] = {}
    for name, (held, own) in places.items():
        names.setdefault(id(held[own]), []).append(name)
    result = dict(tensors)
    for group in names.values():
        given = [name for name in group if name in tensors]
        if any(tensors[name] is not tensors[given[0]] for name in given):
            raise ValueError(
                f"functional_call got multiple values for keys {given}, which are tied."
                " Consider using tie_weights=False"
            )
        if given:
            result.update((name, tensors[given[0]]) for name in group)
    return result
