"""`Module`: the base class of everything that has parameters and a forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from ...autograd.grad_mode import no_grad
from ...autograd.hooks import RemovableHandle
from ...autograd.ops.promotion import is_floating
from ...autograd.tensor import Tensor
from ...memory import Device, as_device, events
from ..parameter import relabel
from .hooks import HookEntry, Hooks, add_hook, call_forward_hooks, call_pre_hooks
from .loading import IncompatibleKeys, load_state, state_of
from .tree import ModuleTree

Self = TypeVar("Self", bound="Module")


def _missing_forward(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module(ModuleTree):
    """Base class of neural network modules, like ``torch.nn.Module``.

    A subclass calls ``super().__init__()`` first, assigns parameters and modules as attributes, and defines
    ``forward``.

    >>> import stowgrad
    >>> class Scale(Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = stowgrad.nn.Parameter(stowgrad.ones(2))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> list(Scale().state_dict())
    ['factor']
    """

    _forward_hooks: Hooks
    _forward_pre_hooks: Hooks

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(_forward_hooks={}, _forward_pre_hooks={})

    # -- forward -------------------------------------------------------------------------------------------------------

    forward: Callable[..., Any] = _missing_forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not events.observers and not self._forward_hooks and not self._forward_pre_hooks:
            return self.forward(*args, **kwargs)
        with events.span("module", type(self).__name__, self):
            if self._forward_pre_hooks:
                args, kwargs = call_pre_hooks(self._forward_pre_hooks, self, args, kwargs)
            output = self.forward(*args, **kwargs)
            if self._forward_hooks:
                output = call_forward_hooks(self._forward_hooks, self, args, kwargs, output)
            return output

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before every forward; what it returns, if not None, replaces the arguments.

        Args:
            hook: the function; with ``with_kwargs`` it is called ``hook(module, args, kwargs)`` and returns None or a
                pair of both.
            prepend: whether it comes before the hooks that are there.
            with_kwargs: see ``hook``.

        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return add_hook(self._forward_pre_hooks, HookEntry(hook, with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after every forward; what it returns, if not None, replaces the output.

        Args:
            hook: the function; with ``with_kwargs`` it is called ``hook(module, args, kwargs, output)``.
            prepend: whether it comes before the hooks that are there.
            with_kwargs: see ``hook``.

        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return add_hook(self._forward_hooks, HookEntry(hook, with_kwargs), prepend)

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_dict(self, *, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and persistent buffers by dotted name; they share memory with the module.

        Args:
            prefix: put in front of every name.
            keep_vars: True for the parameters themselves, by default they come detached.
        """
        return {
            name: tensor if keep_vars else tensor.detach() for name, (_, _, tensor) in state_of(self, prefix).items()
        }

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
        return load_state(self, state_dict, strict, assign)

    # -- modes ---------------------------------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode (or evaluation mode) here and in all modules below.

        Raises:
            ValueError: if ``mode`` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Set evaluation mode: ``train(False)``."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set for all parameters whether gradients flow to them."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zeros."""
        clear_gradients(self.parameters(), set_to_none)

    def apply(self: Self, fn: Callable[[Module], object]) -> Self:
        """Call ``fn`` on every module below and then on this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # -- conversions ---------------------------------------------------------------------------------------------------

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters, buffers and gradients to a device, cast the floating ones to a dtype, or both, in place.

        Called as ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)`` or with the keywords ``device``
        and ``dtype``. The parameters stay the same objects, so an optimizer keeps them.

        Raises:
            TypeError: for a dtype that is neither floating point nor complex, or arguments that are none of these.
            MemoryBudgetError: if there is no room; tensors before that one are converted already.
        """
        device, dtype = _parse_to(args, kwargs)

        def convert(tensor: Tensor) -> Tensor:
            converted: Tensor = tensor.to(dtype=dtype if is_floating(tensor.dtype) else None, device=device)
            return converted

        return self._apply(convert)

    def float(self: Self) -> Self:
        """Cast all floating parameters and buffers to float32."""
        return self._cast(np.dtype(np.float32))

    def double(self: Self) -> Self:
        """Cast all floating parameters and buffers to float64."""
        return self._cast(np.dtype(np.float64))

    def _cast(self: Self, dtype: np.dtype[Any]) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype=dtype) if tensor.is_floating_point() else tensor)

    def _apply(self: Self, fn: Callable[[Tensor], Tensor]) -> Self:
        with no_grad():
            for tensor, category in self._tensors():
                gradient = tensor.grad if tensor.is_leaf else None
                data = tensor.detach()
                converted = fn(data)
                if converted is data:
                    continue
                tensor.grad = None
                tensor.data = converted
                relabel(tensor, category)
                if gradient is not None:
                    tensor.grad = fn(gradient)
        return self

    def _tensors(self) -> Iterable[tuple[Any, str]]:
        yield from ((parameter, "parameter") for parameter in self.parameters())
        yield from ((buffer, "buffer") for buffer in self.buffers())

    # -- repr ----------------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the brackets of the module's repr: its settings."""
        return ""

    def __repr__(self) -> str:
        settings = self.extra_repr()
        children = [f"({name}): {module!r}" for name, module in self._modules.items()]
        if not children:
            return f"{self._get_name()}({settings})"
        lines = [*settings.splitlines(), *children]
        return bracketed(self._get_name(), lines)


def bracketed(name: str, lines: Iterable[str]) -> str:
    """``name(`` and the lines, indented, then ``)``: how a module with children shows itself."""
    inside = "\n".join(lines).replace("\n", "\n  ")
    return f"{name}(\n  {inside}\n)"


def clear_gradients(parameters: Iterable[Tensor], set_to_none: bool) -> None:
    """Drop gradients, or fill them with zeros."""
    for parameter in parameters:
        if set_to_none:
            parameter.grad = None
        elif parameter.grad is not None:
            with no_grad():
                parameter.grad.detach().zero_()


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Device | None, np.dtype[Any] | None]:
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    if kwargs:
        raise TypeError(f"Module.to() got an unexpected keyword argument {next(iter(kwargs))!r}")
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, Device | str):
            device = value
        elif isinstance(value, np.dtype):
            dtype = value
        elif value is not None:
            raise TypeError(f"Module.to(): expected a device, a dtype or a tensor, got {type(value).__name__}")
    if dtype is not None and not is_floating(dtype):
        raise TypeError(f"Module.to() only accepts floating point or complex dtypes, got {dtype}")
    return (None if device is None else as_device(device)), dtype
