"""The node of a user's Function: its ``ctx``, and what the engine needs to run it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import META, Device, pool, storage_of
from ..saved_tensors.saved_variable import SavedVariable
from ..saved_tensors.state import Under
from .engine import current_task
from .node import Node
from .ops.cast import to_dtype
from .ops.sum_to import sum_to
from .record import Do
from .variable import Variable

_Spec = tuple[tuple[int, ...], np.dtype[Any]]


class FunctionRecord:
    """What the engine needs of a user's Function: it runs ``backward`` on tensors, whatever the pass sends."""

    small = None
    fresh = False
    consumes_saved = False
    # The user's backward reads `ctx.saved_tensors` by itself, if it does.
    reads_saved = False
    # Functions that materialize gradients run with zeros where nothing arrived.
    runs_without_gradients = True

    def __init__(self, function: Any) -> None:
        self.function = function
        self.name: str = function.__name__
        self.node_name = f"{function.__name__}Backward"

    def backward(self, do: Do, node: FunctionNode, saved: Any, *grads: Any) -> tuple[Any, ...]:
        """The pass sends arrays: wrap them, run, unwrap."""
        wrap = Variable._tensor_class._wrap
        with Under(grad_enabled=False):
            results = node.run([None if grad is None else wrap(grad, storage_of(grad)) for grad in grads])
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
        return node.run(list(grads))


class FunctionNode(Node):
    """The node of a user's Function, and the ``ctx`` that its forward and backward get."""

    __slots__ = (
        "__dict__",
        "_input_specs",
        "_materialize",
        "_non_differentiable",
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
        self._running = False
        self._saved_intermediate = False
        self._read_in_this_run: tuple[Any, ...] | None = None

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
            RuntimeError: if it was freed, or changed in place since.
        """
        if self._read_in_this_run is not None:
            return self._read_in_this_run
        cls = Variable._tensor_class
        tensors = tuple([None if value is None else value.tensor(self, cls) for value in self.saved_values()])
        if self._running:  # within one run of the node, a slot is unpacked once
            self._read_in_this_run = tensors
        return tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say that outputs have no gradient."""
        self._non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward gets zeros (the default) or None for a gradient that did not arrive."""
        self._materialize = bool(value)

    # -- for the engine -----------------------------------------------------------------------------------------------

    def forget_forward(self) -> None:
        """Drop what only mattered while forward ran."""
        self._to_save = self._non_differentiable = ()

    def run(self, grads: list[Any]) -> tuple[Any, ...]:
        """Call the user's backward and check what it returns."""
        if self._materialize:
            pairs = zip(grads, self._output_specs, strict=True)
            grads = [
                _zeros(*spec, self.run_device) if grad is None and spec is not None else grad for grad, spec in pairs
            ]
        elif all(grad is None for grad in grads):
            return (None,) * len(self.next_edges)
        self._running = True
        try:
            results = self.record.function.backward(self, *grads)
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
        return grad if grad._array.dtype == dtype else to_dtype(grad, dtype)


def _sums_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether ``target`` broadcasts to ``shape``."""
    lead = len(shape) - len(target)
    return lead >= 0 and all(want in (1, got) for got, want in zip(shape[lead:], target, strict=True))


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Any:
    array, storage = pool(device).lease(shape, dtype, "temporary")
    if device is not META:
        backend(device.type).fill(array, 0)
    return Variable._tensor_class._wrap(array, storage)
