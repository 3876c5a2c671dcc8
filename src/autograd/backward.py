"""`backward` and `grad`: gradients of tensors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from ..kernels import backend
from ..memory import CPU, META, Device, events, pool
from ..saved_tensors.state import Under
from .engine import GraphTask
from .frames import user_level
from .node import GradientEdge, gradient_edge
from .ops.cast import to_device, to_dtype
from .ops.join import stack
from .variable import Variable

TensorOrTensors = Any
_ENDS = (Variable, GradientEdge)
_SINGLE = (*_ENDS, np.ndarray)
_has_warned_of_a_cycle = False
Spec: TypeAlias = tuple[tuple[int, ...], np.dtype[Any], Device]


def _as_tuple(values: Any) -> tuple[Any, ...]:
    if values is None:
        return ()
    if isinstance(values, _SINGLE):
        return (values,)
    if type(values) is list or isinstance(values, Iterable):  # the usual one first: asking for `Iterable` takes time
        return tuple(values)
    return (values,)


def _spec_of(tensor: Any) -> Spec | None:
    """Shape, dtype and device of a tensor, or of the output that an edge leads to if they are known."""
    if isinstance(tensor, GradientEdge):
        return tensor.spec
    return tensor._array.shape, tensor._array.dtype, tensor._storage.device


def _filled(spec: Spec, value: int) -> Any:
    shape, dtype, device = spec
    source = pool(device)
    take = source.lease_or_adopt if device is CPU and not events.observers else source.lease
    array, storage = take(shape, dtype, "temporary")
    if device is not META:
        backend(device.type).fill(array, value)
    return Variable._tensor_class._wrap(array, storage)


def _fits(given: Any, root: Any) -> bool:
    """Whether a gradient is a tensor just like the root: nothing else has to be asked then."""
    if not isinstance(given, Variable) or not isinstance(root, Variable):
        return False
    array, expected = given._array, root._array
    if given._storage.pool is not root._storage.pool or array.dtype is not expected.dtype:
        return False
    return array.shape == expected.shape  # type: ignore[no-any-return]  # arrays are Any


def _seed(number: int, root: Any, given: Any) -> Any:
    """The gradient that enters at a root: of its shape, cast to its dtype, moved to its device."""
    if _fits(given, root):
        return given
    spec = _spec_of(root)
    if given is None:
        if spec is None:
            raise RuntimeError(
                f"output {number} is a GradientEdge of an output whose shape is not known: pass a gradient for it, or"
                " take the edge with graph.get_gradient_edge(tensor)"
            )
        if math.prod(spec[0]) != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs, but output {number} has shape"
                f" {list(spec[0])}; pass a gradient of that shape, or reduce it first (.sum())"
            )
        if spec[1].kind == "c":
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but output {number} is {spec[1]}; pass a"
                " gradient, or take a real part first (.real, .abs())"
            )
        return _filled(spec, 1)
    if not isinstance(given, Variable):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(given).__name__} for output {number}")
    if spec is None:
        return given
    shape, dtype, device = spec
    if given._array.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{number}] has a shape of {list(given._array.shape)} and output[{number}]"
            f" has a shape of {list(shape)}."
        )
    if (given._array.dtype.kind == "c") != (dtype.kind == "c"):
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype:"
            f" grad_output[{number}] has a dtype of {given._array.dtype} and output[{number}] has a dtype of {dtype}."
        )
    if given._array.dtype != dtype:
        given = to_dtype(given, dtype)
    return given if given._storage.device is device else to_device(given, device)


def _roots(tensors: tuple[Any, ...], gradients: tuple[Any, ...], task: GraphTask) -> list[tuple[Any, Any]]:
    if gradients and len(gradients) != len(tensors):
        raise RuntimeError(
            f"expected one gradient for each output, got {len(tensors)} outputs and {len(gradients)} gradients"
        )
    roots = []
    for number, root in enumerate(tensors):
        if not isinstance(root, _ENDS):
            raise TypeError(f"expected Tensors or GradientEdges as outputs, got {type(root).__name__} at {number}")
        if isinstance(root, GradientEdge):
            edge = root[:2]
        elif root._requires_grad:
            edge = gradient_edge(root)
        else:
            raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
        roots.append((edge, task.values.of(_seed(number, root, gradients[number] if gradients else None))))
    return roots


def backward(
    tensors: TensorOrTensors,
    grad_tensors: TensorOrTensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: TensorOrTensors | None = None,
) -> None:
    """Accumulate the gradients of tensors into the ``grad`` of the leaves that they depend on.

    Args:
        tensors: one tensor (or gradient edge) or several; each needs a gradient of its shape unless it has one element.
        grad_tensors: the gradient at each of them (None for ones).
        retain_graph: keep what the graph saved, for another pass; ``create_graph`` by default.
        create_graph: record the pass itself, for higher derivatives; `grad` is better for that (see the warning).
        inputs: accumulate only into these leaves, and into the ``grad`` of other tensors among them.

    An exception that leaves it keeps its type and says in a note at which node it happened. Gradients accumulated until
    then stay; nodes that have run have let go of what they saved.

    Raises:
        RuntimeError: for outputs that do not require grad, gradients that do not fit, a graph whose saved values were
            freed, or a saved value that was changed in place.

    >>> import stowgrad
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> backward((x * 3).sum())
    >>> x.grad
    tensor([3., 3.])
    """
    roots = _as_tuple(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    wanted = _as_tuple(inputs)
    if inputs is not None and not wanted:
        raise RuntimeError("'inputs' argument to backward() cannot be empty")
    edges = [_edge_of_input(number, tensor) for number, tensor in enumerate(wanted)]
    for tensor in wanted:
        if not isinstance(tensor, GradientEdge) and tensor._grad_fn is not None:
            tensor.retain_grad()
    if create_graph:
        _warn_of_a_cycle()
    task = GraphTask(keep, create_graph, edges, accumulate=True)
    task.run(_roots(roots, _as_tuple(grad_tensors), task))


def _warn_of_a_cycle() -> None:
    global _has_warned_of_a_cycle
    if not _has_warned_of_a_cycle:
        _has_warned_of_a_cycle = True
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its"
            " gradient which can cause a memory leak. Use autograd.grad when creating the graph to avoid this, or reset"
            " the .grad fields of your parameters to None after use.",
            UserWarning,
            stacklevel=user_level(),
        )


def grad(
    outputs: TensorOrTensors,
    inputs: TensorOrTensors,
    grad_outputs: TensorOrTensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` for ``inputs``; the ``grad`` of leaves is not touched.

    Args:
        outputs: one tensor (or gradient edge) or several.
        inputs: tensors (or gradient edges) to differentiate for.
        grad_outputs: the gradient at each output (None for ones).
        retain_graph: keep what the graph saved; ``create_graph`` by default.
        create_graph: record the pass itself, for higher derivatives.
        only_inputs: has no effect; it stands where PyTorch has it.
        allow_unused: give None for an input that the outputs do not depend on, where an error is the default.
        is_grads_batched: the first dimension of each gradient at an output counts the rows of a batch; results have
            that dimension too. One pass runs for each row, so hooks run as often, and the rows are stacked.
        materialize_grads: give zeros where ``allow_unused`` gives None.

    Raises:
        RuntimeError: as `backward`, and for inputs that do not require grad or are not used.
        ValueError: for ``materialize_grads`` with ``allow_unused=False``.

    >>> import stowgrad
    >>> x = stowgrad.tensor([1.0, 2.0], requires_grad=True)
    >>> grad((x * x).sum(), x)
    (tensor([2., 4.]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: False.")
    wanted = _as_tuple(inputs)
    if not wanted:
        raise RuntimeError("grad requires non-empty inputs.")
    edges = [_edge_of_input(number, tensor) for number, tensor in enumerate(wanted)]
    keep = create_graph if retain_graph is None else retain_graph
    run = _run_rows if is_grads_batched else _run_once
    results = run(_as_tuple(outputs), _as_tuple(grad_outputs), edges, keep, create_graph)
    for number, tensor in enumerate(wanted):
        if results[number] is not None:
            continue
        if materialize_grads:
            results[number] = _zeros_for(number, tensor, _as_tuple(grad_outputs), is_grads_batched)
        elif not allow_unused:
            raise RuntimeError(
                f"One of the differentiated Tensors appears to not have been used in the graph: input {number}."
                " Set allow_unused=True if this is the desired behavior."
            )
    return tuple(results)


def _run_once(
    outputs: tuple[Any, ...], gradients: tuple[Any, ...], edges: list[Any], keep: bool, create_graph: bool
) -> list[Any]:
    """The gradient at each edge, None where none arrived."""
    task = GraphTask(keep, create_graph, edges, accumulate=False)
    task.run(_roots(outputs, gradients, task))
    return [None if task.captured[edge] is None else task.values.tensor(task.captured[edge]) for edge in edges]


def _run_rows(
    outputs: tuple[Any, ...], gradients: tuple[Any, ...], edges: list[Any], keep: bool, create_graph: bool
) -> list[Any]:
    """The same for each row of batched gradients, stacked."""
    length = _batch_length(gradients)
    rows = []
    for number in range(length):
        with Under(grad_enabled=create_graph):
            seeds = tuple([None if gradient is None else gradient[number] for gradient in gradients])
        rows.append(_run_once(outputs, seeds, edges, keep or number < length - 1, create_graph))
    with Under(grad_enabled=create_graph):
        return [_stacked(column) for column in zip(*rows, strict=True)]


def _batch_length(gradients: tuple[Any, ...]) -> int:
    lengths = set()
    for number, gradient in enumerate(gradients):
        if gradient is None:
            continue
        if not isinstance(gradient, Variable):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__} at {number}")
        if not gradient._array.ndim:
            raise RuntimeError(f"is_grads_batched: grad_output[{number}] has no dimension that could count a batch")
        lengths.add(gradient._array.shape[0])
    if len(lengths) != 1 or lengths == {0}:
        raise RuntimeError(
            "is_grads_batched: the first dimension of each grad_output counts the batch: expected one length of at"
            f" least 1 for all, got {sorted(lengths) or 'no gradients'}"
        )
    return int(lengths.pop())


def _stacked(rows: tuple[Any, ...]) -> Any:
    """One tensor of all rows: zeros for a row that has no gradient, None if none has."""
    present = next((row for row in rows if row is not None), None)
    if present is None:
        return None
    spec = _spec_of(present)
    assert spec is not None, "rows are tensors"
    return stack([_filled(spec, 0) if row is None else row for row in rows])


def _zeros_for(number: int, tensor: Any, gradients: tuple[Any, ...], batched: bool) -> Any:
    spec = _spec_of(tensor)
    if spec is None:
        raise RuntimeError(
            f"materialize_grads: input {number} is a GradientEdge of an output whose shape is not known; take the edge"
            " with graph.get_gradient_edge(tensor)"
        )
    shape, dtype, device = spec
    return _filled(((_batch_length(gradients), *shape) if batched else shape, dtype, device), 0)


def _edge_of_input(number: int, tensor: Any) -> Any:
    if isinstance(tensor, GradientEdge):
        return tensor[:2]
    if not isinstance(tensor, Variable):
        raise TypeError(f"expected Tensors as inputs, got {type(tensor).__name__} at position {number}")
    if not tensor._requires_grad:
        raise RuntimeError(f"One of the differentiated Tensors does not require grad: input {number}")
    return gradient_edge(tensor)
