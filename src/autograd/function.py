"""`Function`: ops that users write, with a forward and a backward of their own."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from ..memory import events
from ..saved_tensors.saved_variable import SavedVariable
from ..saved_tensors.state import Under, current
from .entries import leaves_no_tensors
from .function_node import FunctionNode, FunctionRecord
from .history import check_history, rebase
from .node import NO_EDGE, gradient_edge, next_number
from .ops.shape import view
from .variable import Variable
from .view_op import view_of, view_tensor


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
    returns one gradient (or None) for each argument of ``forward``. Or write ``forward(*args)`` and
    ``setup_context(ctx, inputs, output)``, which saves what ``backward`` needs.

    Attributes:
        clear_saved_tensors_on_access: set it to True in a class to let go of ``ctx.saved_tensors`` when they are read,
            so that ``backward`` may free each of them as soon as it can; they can be read once then.
        boxed_grads_call: set it to True in a class to get all gradients as one list, ``backward(ctx, grads)``, so that
            ``backward`` may free each of them as soon as it can, by taking it out of the list.

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

    boxed_grads_call = False
    clear_saved_tensors_on_access = False

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
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what ``backward`` needs, where ``forward`` has no ``ctx``; called after it, with grad mode off.

        Args:
            ctx: the context that ``backward`` will get.
            inputs: the arguments of ``forward``, defaults included.
            output: what it returned; tensors in it have no history yet.
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradients of the arguments from those of the outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with"
            " backward mode AD."
        )

    @classmethod
    @leaves_no_tensors
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record it.

        Tensors inside lists or dicts are not tracked.

        Raises:
            RuntimeError: if ``setup_context`` saves an input that is also an output.
        """
        in_two_steps = cls.setup_context is not Function.setup_context
        if in_two_steps:
            args, kwargs = cls._record.bound(args, kwargs), {}
        node = FunctionNode(cls._record, args)
        try:
            with events.span("op", cls.__name__, cls._record):
                with Under(grad_enabled=False):
                    if in_two_steps:
                        result = cls.forward(*args)
                        cls.setup_context(node, args, result)
                    else:
                        result = cls.forward(node, *args, **kwargs)
                outputs = tuple(result) if isinstance(result, tuple | list) else (result,)
                _check_dirty(node, args, outputs)
                wrapped = _own_outputs(node, args, outputs)
                if current().grad_enabled and True in node.needs_grad:
                    _record(node, args, outputs, wrapped)
        finally:  # after an error, too: what was to be saved may have the node as its history by then
            node.forget_forward()
        if isinstance(result, tuple):
            return wrapped
        return list(wrapped) if isinstance(result, list) else wrapped[0]


def _check_dirty(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> None:
    """Check what was marked as changed in place, and count the change.

    Raises:
        RuntimeError: for a tensor that is not returned, a leaf that requires grad, and a view that must not be written
            or is not the only output.
    """
    recorded = current().grad_enabled and True in node.needs_grad
    for tensor in node._dirty:
        if not any(tensor is arg for arg in args):
            warnings.warn(
                "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is no need"
                " to pass it to mark_dirty().",
                UserWarning,
                stacklevel=3,
            )
        if not any(tensor is output for output in outputs):
            raise RuntimeError(
                f"{node.name()}: Some elements marked as dirty during the forward method were not returned as output."
                " The inputs that are modified inplace must all be outputs of the Function."
            )
        tensor._storage.version += 1
        if recorded:
            check_history(node.name(), tensor)
            if view_of(tensor) is not None and len(outputs) > 1:
                raise RuntimeError(
                    f"{node.name()}: If your Function modifies inplace an input that is a view of another Tensor, your"
                    " Function cannot return more than one Tensor. Make sure that the input is not a view (using"
                    " .clone() for example), or make two Functions of it."
                )


def _own_outputs(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs as objects of their own: an argument as a view of it, another tensor from before as an alias.

    What was changed in place stays the same object.
    """
    made = []
    for output in outputs:
        if any(output is tensor for tensor in node._dirty):
            made.append(output)
        elif any(output is arg for arg in args) and isinstance(output, Variable):
            shape = (output._array.shape,)
            made.append(view_tensor(output, output._array, view, shape, view.attrs(output._array, *shape), None))
        elif isinstance(output, Variable) and output._requires_grad and not _is_new_view(output):
            made.append(output._alias())
        else:
            made.append(output)
    return tuple(made)


def _is_new_view(output: Any) -> bool:
    """Whether a tensor that requires grad was made in forward: a view of a leaf, which has that from the leaf."""
    return output._grad_fn is None and view_of(output) is not None


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
    saved = []
    for number, value in enumerate(node._to_save):  # no comprehension: its frame, which an error keeps, would hold all
        saved.append(_save(node, number, value, args, outputs))
    node.saved_variables = tuple(saved)
    node.sequence_nr = next_number()
    if node.record.boxed:
        node.ensure_hooks()  # the engine's short way holds gradients until the node has run
    excluded = {id(tensor) for tensor in node._non_differentiable}
    dirty = {id(tensor) for tensor in node._dirty}
    for number, (given, out) in enumerate(zip(outputs, wrapped, strict=True)):
        if not isinstance(out, Variable) or id(given) in excluded or out._array.dtype.kind not in "fcV":
            continue
        if id(given) in dirty:
            _rebase(node, args, out, number)
        else:
            out._grad_fn, out._output_nr, out._requires_grad = node, number, True
            how = view_of(out)
            if how is not None:  # writing through it would go past the user's backward
                how.origin = "function" if len(tensors) == 1 else "function_multi"
    for observer in events.observers:
        observer.recorded(node)


def _rebase(node: FunctionNode, args: tuple[Any, ...], tensor: Any, number: int) -> None:
    """Make a tensor that forward changed in place an output of the node."""
    position = next((i for i, arg in enumerate(args) if arg is tensor), None)
    if position is None:
        tensor._grad_fn, tensor._output_nr, tensor._requires_grad = node, number, True
        return
    outer = rebase(tensor, node, position, number)
    if outer is not None:
        node._outer = weakref.ref(outer)
        # The pass looks here for what leads to the gradients that it is asked for.
        node.next_edges = (*node.next_edges[:position], outer.next_edges[0], *node.next_edges[position + 1 :])


def _save(node: FunctionNode, number: int, value: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> Any:
    """An argument with its history, an output as this node's own, anything else as a plain value."""
    if value is None:
        return None
    position = next((i for i, arg in enumerate(args) if arg is value), None)
    if any(value is tensor for tensor in node._dirty):
        position = None  # what it is now, an output
    if position is not None:
        function = node.record.function
        if function.setup_context is not Function.setup_context and any(output is value for output in outputs):
            raise RuntimeError(
                f"{node.name()}: an input that has been returned as-is as output is being saved for backward. This is"
                " not supported if you override setup_context. You should return and save a view of the input instead,"
                " e.g. with x.view_as(x) or setup ctx inside the forward function itself."
            )
        edge = node.next_edges[position]
        saved = SavedVariable(value, edge if edge[0] is not None else None, -1)
    else:
        output = next((i for i, output in enumerate(outputs) if output is value), -1)
        saved = SavedVariable(value, None, output)
        if output < 0 and value._array.dtype.kind in "fcV":
            node._saved_intermediate = True
    if current().hooks or events.observers:
        if position is None and view_of(value) is not None:
            value = value._alias()  # the base may be an output: a hook that keeps the view would keep this node
        saved.pack(value, node.record.name, str(number))
    return saved


class _OnlyOnce(Function):
    """Gradients that were computed without being recorded: they have a history, but no way to follow it."""

    @staticmethod
    def forward(ctx: Any, *gradients: Any) -> Any:
        return tuple(None if gradient is None else gradient._alias() for gradient in gradients)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Say that a ``backward`` has no derivative: it runs with grad mode off, and differentiating it is an error.

    Put it under ``@staticmethod``.
    """

    @functools.wraps(backward)
    def wrapper(ctx: Any, *gradients: Any) -> Any:
        depends = any(value is not None for value in ctx.saved_variables or ())
        depends = depends or any(isinstance(g, Variable) and g._requires_grad for g in gradients)
        with Under(grad_enabled=False):
            results = backward(ctx, *gradients)
        if not (depends and current().grad_enabled):
            return results
        ends = []
        for result in results if isinstance(results, tuple | list) else (results,):
            end = result._alias() if isinstance(result, Variable) else result
            if isinstance(end, Variable):
                end._requires_grad = True
            ends.append(end)
        return _OnlyOnce.apply(*ends)

    return wrapper
