"""A module's state by name: collecting it, and loading it all or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...autograd.grad_mode import no_grad
from ...autograd.tensor import Tensor
from ..parameter import Parameter
from .tree import ModuleTree


class IncompatibleKeys(NamedTuple):
    """What did not match when a state was loaded with ``strict=False``.

    Attributes:
        missing_keys: names that the module has and the state did not.
        unexpected_keys: names that the state has and the module does not.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def state_of(module: ModuleTree, prefix: str = "") -> dict[str, tuple[ModuleTree, str, Tensor]]:
    """Each parameter and persistent buffer by its dotted name: its owner, its name there, and itself.

    A shared parameter comes under each of its names. Order: a module's parameters, its buffers, then its children.
    """
    found: dict[str, tuple[ModuleTree, str, Tensor]] = {}
    for path, owner in module.named_modules(None, "", remove_duplicate=False):
        start = f"{prefix}{path}." if path else prefix
        for name, parameter in owner._parameters.items():
            if parameter is not None:
                found[start + name] = (owner, name, parameter)
        for name, buffer in owner._buffers.items():
            if buffer is not None and name not in owner._non_persistent_buffers_set:
                found[start + name] = (owner, name, buffer)
    return found


def load_state(module: ModuleTree, state: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Load tensors by name; see `Module.load_state_dict`."""
    if not isinstance(state, Mapping):
        raise TypeError(f"load_state_dict: expected a mapping of names to tensors, got {type(state).__name__}")
    own = state_of(module)
    keys = IncompatibleKeys([key for key in own if key not in state], [key for key in state if key not in own])
    complaints = _wrong_values(own, state)
    if strict:
        complaints = _wrong_names(keys) + complaints
    if complaints:
        listed = "\n\t".join(complaints)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{listed}")
    with no_grad():
        for key, (owner, name, target) in own.items():
            if key not in state:
                continue
            if assign:
                _replace(owner, name, target, state[key])
            elif target is not state[key]:
                target.copy_(state[key])
    return keys


def _wrong_names(keys: IncompatibleKeys) -> list[str]:
    said = []
    for what, names in (("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys)):
        if names:
            said.append(f"{what} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + ".")
    return said


def _wrong_values(own: Mapping[str, tuple[ModuleTree, str, Tensor]], state: Mapping[str, Any]) -> list[str]:
    said = []
    for key, (_, _, target) in own.items():
        if key not in state:
            continue
        value = state[key]
        if not isinstance(value, Tensor):
            said.append(f'"{key}": expected a Tensor in the state_dict, got {type(value).__name__}.')
        elif tuple(value.shape) != tuple(target.shape):
            said.append(
                f"size mismatch for {key}: the state_dict has shape {list(value.shape)}, the current model has"
                f" {list(target.shape)}."
            )
        elif value.dtype.kind == "c" and target.dtype.kind != "c":
            said.append(f"{key}: the state_dict has {value.dtype}, which does not fit into {target.dtype}.")
    return said


def _replace(owner: ModuleTree, name: str, target: Tensor, value: Tensor) -> None:
    if isinstance(target, Parameter):
        owner.register_parameter(name, Parameter(value, requires_grad=target.requires_grad))
    else:
        owner.register_buffer(name, value)
