"""`Function`: ops that users write, with a forward and a backward of their own."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..memory import META, events, pool, storage_of
from ..saved_tensors.saved_variable import SavedVariable
from ..saved_tensors.state import Under, current
from .node import NO_EDGE, Node, gradient_edge, next_number
from .ops.cast import to_dtype
from .ops.sum_to import sum_to
from .record import Do
from .variable import Variable


class _FunctionRecord:
    """What the engine needs of a user's Function: it runs `backward` on tensors, whatever the pass sends."""

    small = None
    fresh = False
    reads_saved = False
    # Functions that materialize gradients run with zeros where nothing arrived.
    runs_without_gradients = True

    def __init__(self, function: type[Function]) -> None:
        self.function = function
        self.name = function.__name__
        self.node_name = f"{function.__name__}Backward"

    def backward(self, do: Do, node: FunctionNode, saved: Any, *grads: Any) -> tuple[Any, ...]:
        """The pass sends arrays: wrap them, run, unwrap."""
        wrap = Variable._tensor_class._wrap
        given = [None if g is None else wrap(g, storage_of(g)) for g in grads]
        with Under(grad_enabled=False):
            results = node.run(given)
        return tuple([None if g is None else g._array for g in results])

    def formula(self, do: Do, node: FunctionNode, saved: Any, *grads: Any) -> tuple[Any, ...]:
        """The pass sends tensors and is recorded."""
        return node.run(list(grads))


class FunctionNode(Node):
    """The node of a user's Function, and the ``ctx`` that its forward and backward get."""

    __slots__ = (
        "__dict__",
        "_input_specs",
        "_materialize",
        "_non_differentiable",
        "_pending",
        "_reading",
        "_running",
        "output_specs",
    )

    # -- for the user ----------------------------------------------------------------------------------------------------

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """For each argument of ``apply``, whether its gradient will be used."""
        return self.needs

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or None) for backward; called twice, the last call counts.

        Raises:
            TypeError: for anything else.
        """
        for number, tensor in enumerate(tensors):
            if tensor is not None and not isinstance(tensor, Variable):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {number} is of type"
                    f" {type(tensor).__name__}"
                )
        self._pending = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept.

        Raises:
            RuntimeError: if it was freed, or changed in place since.
        """
        if self._reading is not None:
            return self._reading
        values = self.saved_values()
        cls = Variable._tensor_class
        tensors = tuple([None if value is None else value.tensor(self, cls) for value in values])
        if self._running:  # within one run of the node, a slot is unpacked once
            self._reading = tensors
        return tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for a gradient that did not arrive."""
        self._materialize = bool(value)

    # -- for the engine --------------------------------------------------------------------------------------------------

    def run(self, grads: list[Any]) -> tuple[Any, ...]:
        """Call the user's backward and check what it returns."""
        if self._materialize:
            pairs = zip(grads, self.output_specs, strict=True)
            grads = [_zeros(*spec, self.device) if grad is None else grad for grad, spec in pairs]
        elif all(grad is None for grad in grads):
            return (None,) * len(self.edges)
        self._running = True
        try:
            results = self.op.function.backward(self, *grads)
        finally:
            self._running = False
            self._reading = None
        return self._checked(results if isinstance(results, tuple | list) else (results,))

    def _checked(self, results: Any) -> tuple[Any, ...]:
        name, expected = self.name(), len(self._input_specs)
        if len(results) < expected or any(extra is not None for extra in results[expected:]):
            raise RuntimeError(
                f"function {name} returned an incorrect number of gradients (expected {expected}, got {len(results)}):"
                " backward must return one value for each argument of forward"
            )
        checked = []
        for number, (grad, spec, needed) in enumerate(zip(results, self._input_specs, self.needs, strict=False)):
            if grad is None:
                checked.append(None)
            elif not isinstance(grad, Variable):
                raise RuntimeError(f"function {name} returned a {type(grad).__name__} at position {number}, expected a Tensor")
            elif spec is None:
                raise RuntimeError(
                    f"function {name} returned a gradient different from None at position {number}, but the"
                    " corresponding forward input was not a Variable"
                )
            else:
                checked.append(_fit(grad, spec, name, number) if needed else None)
        return tuple(checked)


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any], device: Any) -> Any:
    array, storage = pool(device).lease(shape, dtype, "temporary")
    if device is not META:
        array.fill(0)
    return Variable._tensor_class._wrap(array, storage)


def _fit(grad: Any, spec: tuple[Any, Any], name: str, number: int) -> Any:
    """A returned gradient in the shape and dtype of the input, where summing and casting can do it."""
    shape, dtype = spec
    got = grad._array.shape
    if got != shape:
        tail = got[len(got) - len(shape) :] if len(got) >= len(shape) else None
        if tail is None or any(b not in (1, a) for a, b in zip(tail, shape, strict=True)):
            raise RuntimeError(
                f"Function {name} returned an invalid gradient at index {number} - got {list(got)} but expected shape"
                f" compatible with {list(shape)}"
            )
        grad = sum_to(grad, shape)
    return grad if grad._array.dtype == dtype else to_dtype(grad, dtype)


class _NotCallable(type):
    """Says how a Function is used when somebody calls an instance or forgets a method."""

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        if "vjp" in namespace and "backward" in namespace:
            raise RuntimeError(f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed: {name}")
        cls._record: Any = None


class Function(metaclass=_NotCallable):
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

    _record: Any

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
        if cls._record is None or cls._record.function is not cls:
            if "vjp" in cls.__dict__:
                cls.backward = cls.__dict__["vjp"]
            cls._record = _FunctionRecord(cls)
        node = _new_node(cls._record, args)
        with Under(grad_enabled=False), events.span("op", cls.__name__, cls._record):
            result = cls.forward(node, *args, **kwargs)
        recording = current().grad_enabled and True in node.needs
        outputs = tuple(result) if isinstance(result, tuple | list) else (result,)
        wrapped = _record(node, args, outputs) if recording else _fresh(args, outputs)
        if not recording:
            node._pending = ()
        if isinstance(result, tuple):
            return wrapped
        return list(wrapped) if isinstance(result, list) else wrapped[0]


def _new_node(record: _FunctionRecord, args: tuple[Any, ...]) -> FunctionNode:
    node = FunctionNode()
    node.op = record
    node.needs = tuple([isinstance(arg, Variable) and arg._requires_grad for arg in args])
    node.attrs = None
    node.hooks = None
    node.saved = ()
    node.edges = ()
    node._input_specs = tuple(
        (arg._array.shape, arg._array.dtype) if isinstance(arg, Variable) else None for arg in args
    )
    node._pending = ()
    node._materialize = True
    node._non_differentiable = ()
    node._reading = None
    node._running = False
    return node


def _fresh(args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Outputs as objects of their own: an input that is returned unchanged comes back as another tensor."""
    return tuple(
        out._alias() if isinstance(out, Variable) and any(out is arg for arg in args) else out for out in outputs
    )


def _record(node: FunctionNode, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    node.edges = tuple(
        [gradient_edge(arg) if needed else NO_EDGE for arg, needed in zip(args, node.needs, strict=True)]
    )
    wrapped = _fresh(args, outputs)
    tensors = [out for out in wrapped if isinstance(out, Variable)]
    node.device = tensors[0]._storage.device if tensors else args[node.needs.index(True)]._storage.device
    node.outputs = len(wrapped)
    node.output_specs = tuple(
        (out._array.shape, out._array.dtype) if isinstance(out, Variable) else ((), np.dtype(np.float32))
        for out in wrapped
    )
    node.saved = tuple([_save(node, number, value, args, outputs) for number, value in enumerate(node._pending)])
    node._pending = ()
    node.number = next_number()
    excluded = {id(tensor) for tensor in node._non_differentiable}
    for number, (given, out) in enumerate(zip(outputs, wrapped, strict=True)):
        if isinstance(out, Variable) and id(given) not in excluded and out._array.dtype.kind in "fcV":
            out._grad_fn, out._output_nr, out._requires_grad = node, number, True
    node._non_differentiable = ()
    return wrapped


def _save(node: FunctionNode, number: int, value: Any, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> Any:
    """An argument with its history, an output as this node's own, anything else as a plain value."""
    if value is None:
        return None
    position = next((i for i, arg in enumerate(args) if arg is value), None)
    if position is not None:
        edge = node.edges[position]
        saved = SavedVariable(value, edge if edge[0] is not None else None, -1)
    else:
        out = next((i for i, output in enumerate(outputs) if output is value), -1)
        saved = SavedVariable(value, None, out)
    if current().hooks or events.observers:
        saved.pack(value, node.op.name, str(number))
    return saved

