"""`Function`: ops that users write, with a forward and a backward of their own."""

from __future__ import annotations

import warnings
from typing import Any

from ..memory import events
from ..saved_tensors.saved_variable import SavedVariable
from ..saved_tensors.state import Under, current
from .function_node import FunctionNode, FunctionRecord
from .node import NO_EDGE, gradient_edge, next_number
from .variable import Variable


class _FunctionType(type):
    """Checks a Function when it is defined, and makes its record."""

    _record: Any

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        if "vjp" in namespace:
            if "backward" in namespace:
                raise RuntimeError(
                    f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed: {name}"
                )
            type.__setattr__(cls, "backward", namespace["vjp"])
        cls._record = FunctionRecord(cls)


class Function(metaclass=_FunctionType):
    """Base class of ops that users write.

    Write ``forward(ctx, *args)`` and ``backward(ctx, *grad_outputs)`` as static methods; call ``apply``. ``backward``
    returns one gradient (or None) for each argument of ``forward``.

    >>> import stowgrad
    >>> class Cube(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return grad * 3 * x * x
    >>> x = stowgrad.tensor([2.0], requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor([12.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self).__name__} should not be instantiated. Methods on autograd functions are all static, so you"
            " should invoke them on the class itself: use .apply(...).",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("An instance of an autograd function can't be called; use its static method .apply(...)")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result from ``ctx`` and the arguments, with grad mode off."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with"
            " backward mode AD."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record it.

        Tensors inside lists or dicts are not tracked.
        """
        node = FunctionNode(cls._record, args)
        with events.span("op", cls.__name__, cls._record):
            with Under(grad_enabled=False):
                result = cls.forward(node, *args, **kwargs)
            outputs = tuple(result) if isinstance(result, tuple | list) else (result,)
            wrapped = _own_outputs(args, outputs)
            if current().grad_enabled and True in node.needs_grad:
                _record(node, args, outputs, wrapped)
        node.forget_forward()
        if isinstance(result, tuple):
            return wrapped
        return list(wrapped) if isinstance(result, list) else wrapped[0]


def _own_outputs(args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs as objects of their own: a tensor that existed before comes back as another one over its memory."""
    made = []
    for output in outputs:
        existed = isinstance(output, Variable) and (output._requires_grad or any(output is arg for arg in args))
        made.append(output._alias() if existed else output)
    return tuple(made)


def _record(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...], wrapped: tuple[Any, ...]) -> None:
    node.next_edges = tuple(
        [gradient_edge(arg) if needed else NO_EDGE for arg, needed in zip(args, node.needs_grad, strict=True)]
    )
    tensors = [out for out in wrapped if isinstance(out, Variable)]
    node.run_device = (tensors or [arg for arg in args if isinstance(arg, Variable)])[0]._storage.device
    node.num_outputs = len(wrapped)
    node._output_specs = tuple(
        (out._array.shape, out._array.dtype) if isinstance(out, Variable) else None for out in wrapped
    )
    node.saved_variables = tuple(
        [_save(node, number, value, args, outputs) for number, value in enumerate(node._to_save)]
    )
    node.sequence_nr = next_number()
    excluded = {id(tensor) for tensor in node._non_differentiable}
    for number, (given, out) in enumerate(zip(outputs, wrapped, strict=True)):
        if isinstance(out, Variable) and id(given) not in excluded and out._array.dtype.kind in "fcV":
            out._grad_fn, out._output_nr, out._requires_grad = node, number, True
    for observer in events.observers:
        observer.recorded(node)


def _save(node: FunctionNode, number: int, value: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> Any:
    """An argument with its history, an output as this node's own, anything else as a plain value."""
    if value is None:
        return None
    position = next((i for i, arg in enumerate(args) if arg is value), None)
    if position is not None:
        edge = node.next_edges[position]
        saved = SavedVariable(value, edge if edge[0] is not None else None, -1)
    else:
        output = next((i for i, output in enumerate(outputs) if output is value), -1)
        saved = SavedVariable(value, None, output)
        if output < 0 and value._array.dtype.kind in "fcV":
            node._saved_intermediate = True
    if current().hooks or events.observers:
        saved.pack(value, node.record.name, str(number))
    return saved
