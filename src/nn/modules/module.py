"""`Module`: the base class of everything that has parameters and a forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ...autograd.frames import clear_own_frames
from ...autograd.grad_mode import no_grad
from ...autograd.hooks import RemovableHandle
from ...autograd.misplaced import no_tensor_was_given
from ...autograd.tensor import Tensor
from ...memory import events
from ...saved_tensors import modules as module_scope
from .conversion import Conversions
from .hooks import HookEntry, Hooks, add_hook, call_with_hooks

Self = TypeVar("Self", bound="Module")


def _missing_forward(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class Module(Conversions):
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
    _backward_hooks: dict[int, Callable[..., Any]]
    _backward_pre_hooks: dict[int, Callable[..., Any]]

    def __init__(self) -> None:
        super().__init__()
        self.__dict__.update(_forward_hooks={}, _forward_pre_hooks={}, _backward_hooks={}, _backward_pre_hooks={})

    # -- forward -------------------------------------------------------------------------------------------------------

    forward: Callable[..., Any] = _missing_forward

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if module_scope.followed and not module_scope.is_inside(self):
                with module_scope.inside(self):
                    return self(*args, **kwargs)
            if self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks:
                with events.span("module", type(self).__name__, self):
                    return call_with_hooks(self, args, kwargs)
            if not events.observers:
                return self.forward(*args, **kwargs)
            with events.span("module", type(self).__name__, self):
                return self.forward(*args, **kwargs)
        except BaseException as error:  # NOTE [ Entries ]
            message = no_tensor_was_given(error, type(self).forward, (self, *args), kwargs)
            del self, args, kwargs
            clear_own_frames(error)
            if message is None:
                raise
        raise TypeError(message)

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
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after every forward; what it returns, if not None, replaces the output.

        Args:
            hook: the function; with ``with_kwargs`` it is called ``hook(module, args, kwargs, output)``.
            prepend: whether it comes before the hooks that are there.
            with_kwargs: see ``hook``.
            always_call: whether it is called when forward or a hook before it raises, too, with the output so far.

        Returns:
            A handle whose ``remove()`` takes the hook away.
        """
        return add_hook(self._forward_hooks, HookEntry(hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` in backward when the gradients of the inputs are there.

        Both are tuples, of the positional arguments and of the outputs, None for what is no tensor or has no gradient.
        A tuple that the hook returns takes the place of ``grad_input``. Where no input requires grad, it is called with
        None for all of them when the gradients of the outputs are there.

        Args:
            hook: the function.
            prepend: whether it comes before the hooks that are there.

        Returns:
            A handle whose ``remove()`` takes the hook away, for forwards from then on.

        Inputs and outputs must not be changed in place.
        """
        return add_hook(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` in backward before the gradients of the outputs go into the module.

        A tuple that the hook returns takes their place; the rest is as for `register_full_backward_hook`.
        """
        return add_hook(self._backward_pre_hooks, hook, prepend)

    # -- modes ---------------------------------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode (or evaluation mode) here and in all modules below.

        Raises:
            ValueError: if ``mode`` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)
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

    # -- repr ----------------------------------------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the brackets of the module's repr: its settings."""
        return ""

    def __repr__(self) -> str:
        settings = self.extra_repr()
        children = [f"({name}): {module!r}" for name, module in self._modules.items()]
        lines = [*settings.splitlines(), *children]
        if not children and len(lines) < 2:
            return f"{self._get_name()}({settings})"
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
