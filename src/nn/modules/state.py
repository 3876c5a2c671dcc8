"""`ModuleState`: a module's state by name, collecting it, and loading it all or not at all."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...autograd.frames import user_level
from ...autograd.grad_mode import no_grad
from ...autograd.hooks import RemovableHandle
from ...autograd.tensor import Tensor
from ..parameter import Parameter
from ..uninitialized import UninitializedTensorMixin, is_lazy
from .hooks import add_hook
from .tree import ModuleTree

_EXTRA = "_extra_state"


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


class ModuleState(ModuleTree):
    """What `Module` is besides its computation: parameters, buffers and submodules, and their state by name."""

    # Written beside the state, so that a later version of a class can tell what it reads.
    _version: int = 1

    _state_dict_hooks: dict[int, Callable[..., Any]]
    _state_dict_pre_hooks: dict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: dict[int, Callable[..., Any]]
    _load_state_dict_post_hooks: dict[int, Callable[..., Any]]

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(
            _state_dict_hooks={},
            _state_dict_pre_hooks={},
            _load_state_dict_pre_hooks={},
            _load_state_dict_post_hooks={},
        )

    # -- collecting ----------------------------------------------------------------------------------------------------

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Parameters and persistent buffers by dotted name; they share memory with the module.

        A shared parameter comes under each of its names. Order: a module's parameters, its buffers, then its children.

        Args:
            destination: a dict that they are added to; a new one if None.
            prefix: put in front of every name.
            keep_vars: True for the parameters themselves, by default they come detached.
        """
        found: Any = OrderedDict() if destination is None else destination
        if not hasattr(found, "_metadata") and isinstance(found, OrderedDict):
            found._metadata = OrderedDict()  # type: ignore[attr-defined]  # where PyTorch has the versions, too
        metadata = {"version": self._version}
        if hasattr(found, "_metadata"):
            found._metadata[prefix[:-1]] = metadata
        for hook in list(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(found, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            if hook(self, found, prefix, metadata) is not None:
                raise RuntimeError("state_dict post-hook must return None: change the dict that it gets")
        return found  # type: ignore[no-any-return]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Add what is this module's own; for classes that keep more."""
        for name, tensor in self._own_state().items():
            destination[prefix + name] = tensor if keep_vars or is_lazy(tensor) else tensor.detach()
        if _has_extra(self, "get_extra_state"):
            destination[prefix + _EXTRA] = self.get_extra_state()

    def _own_state(self) -> dict[str, Tensor]:
        hidden = self._non_persistent_buffers_set
        buffers = {name: buffer for name, buffer in self._buffers.items() if name not in hidden}
        return {name: tensor for name, tensor in (*self._parameters.items(), *buffers.items()) if tensor is not None}

    def get_extra_state(self) -> Any:
        """What belongs to the module's state and is no tensor of its own; for classes that have such a thing."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:
        """Take what `get_extra_state` gave."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    # -- loading -------------------------------------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy tensors into the parameters and persistent buffers with the same names.

        Args:
            state_dict: tensors by name, as from `state_dict`; dtypes and devices may differ.
            strict: whether every name must match.
            assign: True to take the tensors themselves over, without a copy, instead of writing into those of the
                module: dtypes and devices become theirs.

        Returns:
            The missing and the unexpected names (both empty under ``strict``).

        Raises:
            RuntimeError: naming every missing, unexpected (under ``strict``) and wrong-shaped key; nothing was loaded.
            TypeError: if ``state_dict`` is no mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"Expected state_dict to be dict-like, a mapping of names to tensors, got {type(state_dict).__name__}"
            )
        found = _Found(getattr(state_dict, "_metadata", None) or {}, strict, assign)
        _plan(self, dict(state_dict), "", found)
        keys, messages = found.keys, found.messages
        if strict:
            messages = _wrong_names(keys) + messages
        if messages:
            listed = "\n\t".join(messages)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}")
        with no_grad():
            for step in found.steps:
                step()
        _after_loading(self, keys)
        return keys

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Look at what is this module's own, and plan the writing; for classes that read states of older versions.

        Args:
            state_dict: a copy of the state, which may be changed.
            prefix: the module's name and a dot.
            local_metadata: ``"version"`` of the class that wrote the state, if known.
            strict: whether every name must match.
            missing_keys, unexpected_keys, error_msgs: where to add what is wrong.
        """
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = self._own_state()
        steps, assign = local_metadata["steps"], local_metadata["assign_to_params_buffers"]
        for name, target in own.items():
            if prefix + name not in state_dict:
                missing_keys.append(prefix + name)
                continue
            value = state_dict[prefix + name]
            complaint = _complaint(prefix + name, value, target)
            if complaint:
                error_msgs.append(complaint)
            elif value is not target:
                _warn_of_nothing(prefix + name, value, target, assign)
                steps.append(_Step(self, name, target, value, assign))
        extra = prefix + _EXTRA
        if _has_extra(self, "set_extra_state"):
            if extra in state_dict:
                steps.append(_ExtraStep(self, state_dict[extra]))
            else:
                missing_keys.append(extra)
        elif extra in state_dict:
            unexpected_keys.append(extra)
        for key in state_dict:
            first, dot, _ = key[len(prefix) :].partition(".")
            known = self._modules.get(first) is not None if dot else first in own
            if key.startswith(prefix) and key != extra and not known:
                unexpected_keys.append(key)

    # -- hooks ---------------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before this module's state is collected."""
        return add_hook(self._state_dict_pre_hooks, hook, prepend=False)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` when it is; the hook may change ``state_dict``."""
        return add_hook(self._state_dict_hooks, hook, prepend=False)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook`` before this module looks into a state that is loaded; it may change its ``state_dict``.

        It gets ``(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``.
        """
        return add_hook(self._load_state_dict_pre_hooks, hook, prepend=False)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """The same under its old name; without ``with_module`` the hook gets no module."""
        return add_hook(self._load_state_dict_pre_hooks, hook if with_module else _WithoutModule(hook), prepend=False)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after a state was loaded; the hook may change the lists."""
        return add_hook(self._load_state_dict_post_hooks, hook, prepend=False)


class _Found:
    """What is found out about a state before anything is written."""

    def __init__(self, versions: Mapping[str, Any], strict: bool, assign: bool) -> None:
        self.versions, self.strict, self.assign = versions, strict, assign
        self.keys = IncompatibleKeys([], [])
        self.messages: list[str] = []
        self.steps: list[Callable[[], object]] = []


def _plan(module: Any, state: dict[str, Any], prefix: str, found: _Found) -> None:
    """Let a module and those below look at a state. No closure: one that calls itself would keep the state alive."""
    versions = found.versions.get(prefix[:-1], {})
    local = {**versions, "assign_to_params_buffers": found.assign, "steps": found.steps}
    module._load_from_state_dict(state, prefix, local, found.strict, *found.keys, found.messages)
    for name, child in module._modules.items():
        if child is not None:
            start = f"{prefix}{name}."
            _plan(child, {key: value for key, value in state.items() if key.startswith(start)}, start, found)


class _WithoutModule(NamedTuple):
    """A hook that does not take the module."""

    function: Callable[..., Any]

    def __call__(self, module: Any, *args: Any) -> None:
        self.function(*args)


class _Step(NamedTuple):
    """One tensor that is to be loaded."""

    owner: ModuleTree
    name: str
    target: Tensor
    value: Tensor
    assign: bool

    def __call__(self) -> None:
        owner, name, target, value, assign = self
        if isinstance(target, UninitializedTensorMixin):
            if is_lazy(value):
                return
            target.materialize(value.shape)
        if not assign:
            target.copy_(value)
        elif not isinstance(target, Parameter):
            owner.register_buffer(name, value)
        elif isinstance(value, Parameter):
            owner.register_parameter(name, value.requires_grad_(target.requires_grad))
        else:
            owner.register_parameter(name, Parameter(value, requires_grad=target.requires_grad))


class _ExtraStep(NamedTuple):
    """The extra state of one module that is to be loaded."""

    owner: ModuleState
    value: Any

    def __call__(self) -> None:
        self.owner.set_extra_state(self.value)


def _has_extra(module: ModuleState, name: str) -> bool:
    return getattr(type(module), name) is not getattr(ModuleState, name)


def _after_loading(module: Any, keys: IncompatibleKeys) -> None:
    for child in module._modules.values():
        if child is not None:
            _after_loading(child, keys)
    for hook in list(module._load_state_dict_post_hooks.values()):
        if hook(module, keys) is not None:
            raise RuntimeError(
                "a load_state_dict post hook must return None: change the lists of its argument in place"
            )


def _wrong_names(keys: IncompatibleKeys) -> list[str]:
    said = []
    for what, names in (("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys)):
        if names:
            said.append(f"{what} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + ".")
    return said


def _warn_of_nothing(key: str, value: Tensor, target: Tensor, assign: bool) -> None:
    """Warn of values that are given to a tensor which has none."""
    if not assign and target.device.type == "meta" != value.device.type:
        warnings.warn(
            f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model,"
            " which is a no-op. (Did you mean to pass `assign=True` to assign items in the state dictionary to their"
            " corresponding key in the module instead of copying them in place?)",
            stacklevel=user_level(),
        )


def _complaint(key: str, value: Any, target: Tensor) -> str:
    """Why a value can't be loaded, or nothing."""
    if not isinstance(value, Tensor):
        return f'"{key}": expected a Tensor in the state_dict, got {type(value).__name__}.'
    if is_lazy(target):
        return ""
    if is_lazy(value):
        return f"{key}: the state_dict has a tensor without a shape, of a module that was never called."
    if tuple(value.shape) != tuple(target.shape):
        return (
            f"size mismatch for {key}: the state_dict has shape {list(value.shape)}, the current model has"
            f" {list(target.shape)}."
        )
    if value.dtype.kind == "c" and target.dtype.kind != "c":
        return f"{key}: the state_dict has {value.dtype}, which does not fit into {target.dtype}."
    return ""
