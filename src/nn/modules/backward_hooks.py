"""Hooks on the gradients that enter and leave a module in backward.

Two ops that change nothing mark the border: one passes all inputs on, the other all outputs. The gradients of the
outputs arrive together at the second, those of the inputs together at the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...autograd.function import Function
from ...autograd.grad_mode import is_grad_enabled
from ...autograd.tensor import Tensor

Hook: TypeAlias = Callable[..., Any]


class BackwardHookFunction(Function):
    """Passes tensors on, and their gradients back."""

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return grad_outputs


class BackwardHook:
    """The hooks of one call of a module.

    Args:
        module: the module.
        hooks: called with the module and the gradients of its inputs and outputs.
        pre_hooks: called with the module and the gradients of its outputs, before those go into it.
    """

    def __init__(self, module: Any, hooks: list[Hook], pre_hooks: list[Hook]) -> None:
        self._module = module
        self._hooks = hooks
        self._pre_hooks = pre_hooks
        self._grad_outputs: tuple[Any, ...] | None = None
        self._inputs = 0
        self._input_places: list[int] | None = None
        self._outputs = 0
        self._output_places: list[int] | None = None

    def on_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same inputs, watched."""
        passed, self._input_places = _watched(args, lambda node: node.register_hook(self._left))
        self._inputs = len(args)
        return tuple(passed)

    def on_outputs(self, output: Any) -> Any:
        """The same outputs, watched: a tensor, or those in a tuple."""
        listed = output if isinstance(output, tuple) else (output,)
        passed, self._output_places = _watched(listed, lambda node: node.register_prehook(self._entered))
        self._outputs = len(listed)
        if not isinstance(output, tuple):
            return passed[0]
        return type(output)(*passed) if hasattr(output, "_fields") else tuple(passed)

    def _entered(self, gradients: tuple[Any, ...]) -> Any:
        """The gradients of the outputs are there."""
        outputs = _placed(gradients, self._output_places, self._outputs)
        for hook in self._pre_hooks:
            changed = hook(self._module, outputs)
            if changed is not None:
                changed = changed if isinstance(changed, tuple | list) else (changed,)
                _check_count("Backward pre hook", "grad_output", len(changed), len(outputs))
                outputs = tuple(changed)
        if self._input_places is None:  # no gradient will leave the module
            self._call_without_inputs(outputs)
        else:
            self._grad_outputs = outputs
        return tuple(outputs[place] for place in self._output_places or ())

    def _call_without_inputs(self, outputs: tuple[Any, ...]) -> None:
        for hook in self._hooks:
            changed = hook(self._module, (None,) * self._inputs, outputs)
            if changed is not None and not (isinstance(changed, tuple) and all(value is None for value in changed)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for"
                    " all gradients."
                )

    def _left(self, gradients: tuple[Any, ...], _: tuple[Any, ...]) -> Any:
        """The gradients of the inputs are there."""
        outputs, self._grad_outputs = self._grad_outputs, None
        if outputs is None:  # the pass came past the outputs on another way
            return None
        inputs = _placed(gradients, self._input_places, self._inputs)
        for hook in self._hooks:
            changed = hook(self._module, inputs, outputs)
            if changed is not None:
                changed = changed if isinstance(changed, tuple | list) else (changed,)
                _check_count("Backward hook", "grad_input", len(changed), len(inputs))
                inputs = tuple(changed)
        return tuple(inputs[place] for place in self._input_places or ())


def _check_count(what: str, name: str, got: int, expected: int) -> None:
    if got != expected:
        raise RuntimeError(f"{what} returned an invalid number of {name}, got {got}, but expected {expected}")


def _placed(values: Sequence[Any], places: list[int] | None, count: int) -> tuple[Any, ...]:
    """Values at their places among None."""
    result: list[Any] = [None] * count
    for place, value in zip(places or (), values, strict=True):
        result[place] = value
    return tuple(result)


def _watched(values: tuple[Any, ...], watch: Callable[[Any], object]) -> tuple[list[Any], list[int] | None]:
    """The values with their tensors passed through a node that is watched, and the places of those.

    Without a gradient there is no node, and no places.
    """
    places = [place for place, value in enumerate(values) if isinstance(value, Tensor)]
    passed = list(values)
    if not is_grad_enabled() or not any(values[place].requires_grad for place in places):
        return passed, None
    for place, tensor in zip(places, BackwardHookFunction.apply(*[values[place] for place in places]), strict=True):
        passed[place] = tensor
    watch(next(passed[place].grad_fn for place in places if passed[place].grad_fn is not None))
    return passed, places
