"""The node of a user's Function: its ``ctx``, and what the engine needs to run it."""

from __future__ import annotations

import inspect
import warnings
import weakref
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import META, Device, pool, storage_of
from ..saved_tensors.saved_variable import Edge, SavedVariable
from ..saved_tensors.state import call_outside
from .copy_slices import CopySlices
from .engine import current_task
from .node import Node
from .ops.cast import to_device, to_dtype
from .ops.sum_to import sum_to
from .record import BoxedGradients, Do
from .saved_slots import SavedTensor
from .variable import Variable

_Spec = tuple[tuple[int, ...], np.dtype[Any]]


class FunctionRecord:
    """What the engine needs of a user's Function: it runs ``backward`` on tensors, whatever the pass sends."""

    small = None
    fresh = False
    consumes_saved = False
    scatters = False
    flat = False
    # The user's backward reads `ctx.saved_tensors` by itself, if it does.
    reads_saved = False
    # Functions that materialize gradients run with zeros where nothing arrived.
    runs_without_gradients = True

    def __init__(self, function: Any) -> None:
        self.function = function
        self.name: str = function.__name__
        self.node_name = f"{function.__name__}Backward"
        self._signature: inspect.Signature | None = None

    @property
    def boxed(self) -> bool:
        """Whether the user's backward takes all gradients as one list."""
        return bool(self.function.boxed_grads_call)

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a ``forward`` without ``ctx``, keywords and defaults in their places.

        Raises:
            TypeError: if they do not fit.
        """
        if self._signature is None:
            self._signature = inspect.signature(self.function.forward)
        arguments = self._signature.bind(*args, **kwargs)
        arguments.apply_defaults()
        if arguments.kwargs:
            raise TypeError(
                f"{self.name}: with setup_context, forward can't have keyword-only arguments"
                f" ({', '.join(arguments.kwargs)}): backward returns one gradient for each position"
            )
        return arguments.args

    def backward(self, do: Do, node: FunctionNode, saved: Any, *grads: Any) -> tuple[Any, ...]:
        """The pass sends arrays: wrap them, run, unwrap."""
        wrap = Variable._tensor_class._wrap
        given = _listed(grads)
        for number in range(len(given)):
            if given[number] is not None:
                given[number] = wrap(given[number], storage_of(given[number]))
        results = call_outside(node.run, given)
        return tuple([None if result is None else result._array for result in results])

    def formula(self, do: Do, node: FunctionNode, saved: Any, *grads: Any) -> tuple[Any, ...]:
        """The pass sends tensors and is recorded."""
        if node._saved_intermediate:
            warnings.warn(
                f"{node.name()} reads a saved tensor that is neither an input nor an output of forward: derivatives of"
                " this pass leave out what depends on the inputs through it. Save inputs and compute it again in"
                " backward, or make it an output.",
                UserWarning,
                stacklevel=2,
            )
        return node.run(_listed(grads))


class FunctionNode(Node):
    """The node of a user's Function, and the ``ctx`` that its forward and backward get."""

    __slots__ = (
        "__dict__",
        "_cleared",
        "_dirty",
        "_input_specs",
        "_materialize",
        "_non_differentiable",
        "_outer",
        "_output_specs",
        "_read_in_this_run",
        "_running",
        "_saved_intermediate",
        "_to_save",
    )

    _input_specs: tuple[_Spec | None, ...]
    _output_specs: tuple[_Spec | None, ...]

    def __init__(self, record: FunctionRecord, args: tuple[Any, ...]) -> None:
        self.record = record
        self.needs_grad = tuple([isinstance(arg, Variable) and arg._requires_grad for arg in args])
        self.op_attrs = None
        self.node_hooks = None
        self.saved_variables: tuple[SavedVariable | None, ...] | None = ()
        self.next_edges = ()
        self._input_specs = tuple(
            (arg._array.shape, arg._array.dtype) if isinstance(arg, Variable) else None for arg in args
        )
        self._to_save: tuple[Any, ...] = ()
        self._materialize = True
        self._non_differentiable: tuple[Any, ...] = ()
        self._dirty: tuple[Any, ...] = ()
        # The node of the base, where forward wrote into a view.
        self._outer: weakref.ref[CopySlices] | None = None
        self._running = False
        self._saved_intermediate = False
        self._read_in_this_run: tuple[Any, ...] | None = None
        self._cleared = False

    # -- for the user -------------------------------------------------------------------------------------------------

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """For each argument of ``apply``, whether it requires grad; in backward, whether the pass uses its gradient."""
        task = current_task() if self._running else None
        return self.needs_grad if task is None else task.wanted_of(self)

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
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept.

        Raises:
            RuntimeError: if it was freed, or changed in place since, or read before by a Function with
                ``clear_saved_tensors_on_access``.
        """
        if self._read_in_this_run is not None:
            return self._read_in_this_run
        if self._cleared:
            raise RuntimeError(
                f"{self.name()}: saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set"
                " on the autograd.Function. Either access saved_tensors only once, or set"
                " clear_saved_tensors_on_access=False."
            )
        cls = Variable._tensor_class
        tensors = tuple([None if value is None else value.tensor(self, cls) for value in self.saved_values()])
        if self.record.function.clear_saved_tensors_on_access:
            self._cleared = bool(tensors)
            self.saved_variables = ()
        elif self._running:  # within one run of the node, a slot is unpacked once
            self._read_in_this_run = tensors
        return tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The places of what `save_for_backward` kept.

        Raises:
            RuntimeError: if it was freed.
        """
        return tuple([SavedTensor(self, number, str(number)) for number in range(len(self.saved_values()))])

    def mark_dirty(self, *tensors: Any) -> None:
        """Say that forward changes arguments in place: they must be returned, and get this node as their history."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for a gradient that did not arrive."""
        self._materialize = bool(value)

    # -- for the engine -----------------------------------------------------------------------------------------------

    def forget_forward(self) -> None:
        """Drop what only mattered while forward ran."""
        self._to_save = self._non_differentiable = self._dirty = ()

    def edge_of_output(self, number: int) -> Edge:
        """The edge that one of the outputs has."""
        outer = None if self._outer is None else self._outer()
        return (self, number) if outer is None else outer.edge_of_view()

    def run(self, grads: list[Any]) -> tuple[Any, ...]:
        """Call the user's backward, with gradients that it may take out of the list, and check what it returns."""
        if self._materialize:
            for number, spec in enumerate(self._output_specs):
                if grads[number] is None and spec is not None:
                    grads[number] = _zeros(*spec, self.run_device)
        self._running = True
        try:
            backward = self.record.function.backward
            results = backward(self, grads) if self.record.boxed else backward(self, *grads)
        finally:
            self._running = False
            self._read_in_this_run = None
        return self._checked(results if isinstance(results, tuple | list) else (results,))

    def _checked(self, results: Any) -> tuple[Any, ...]:
        expected = len(self._input_specs)
        if len(results) < expected or any(extra is not None for extra in results[expected:]):
            raise RuntimeError(
                f"function {self.name()} returned an incorrect number of gradients (expected {expected}, got"
                f" {len(results)}): backward must return one value for each argument of forward"
            )
        triples = zip(results, self._input_specs, self.needs_grad, strict=False)
        return tuple([self._fitted(number, *triple) for number, triple in enumerate(triples)])

    def _fitted(self, number: int, grad: Any, spec: _Spec | None, needed: bool) -> Any:
        """A returned gradient in the shape and dtype of the input, where summing and casting can do it."""
        if grad is None:
            return None
        if not isinstance(grad, Variable):
            raise RuntimeError(
                f"function {self.name()} returned a {type(grad).__name__} at position {number}, expected a Tensor"
            )
        if spec is None:
            raise RuntimeError(
                f"function {self.name()} returned a gradient different from None at position {number}, but the"
                " corresponding forward input was not a Variable"
            )
        if not needed:
            return None
        shape, dtype = spec
        if grad._array.shape != shape:
            if not _sums_to(grad._array.shape, shape):
                raise RuntimeError(
                    f"Function {self.name()} returned an invalid gradient at index {number} - got"
                    f" {list(grad._array.shape)} but expected shape compatible with {list(shape)}"
                )
            grad = sum_to(grad, shape)
        if grad._array.dtype != dtype:
            grad = to_dtype(grad, dtype)
        device = self.next_edges[number][0].run_device  # where what made the input runs is where the input is
        return grad if grad._storage.device is device else to_device(grad, device)


def _listed(grads: tuple[Any, ...]) -> list[Any]:
    """Gradients as a list that nobody else reads."""
    return grads[0] if grads and type(grads[0]) is BoxedGradients else list(grads)


def _sums_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether ``target`` broadcasts to ``shape``."""
    lead = len(shape) - len(target)
    return lead >= 0 and all(want in (1, got) for got, want in zip(shape[lead:], target, strict=True))


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Any:
    array, storage = pool(device).lease(shape, dtype, "temporary")
    if device is not META:
        backend(device.type).fill(array, 0)
    return Variable._tensor_class._wrap(array, storage)
