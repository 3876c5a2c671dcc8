"""`backward` and `grad`: gradients of tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..kernels import backend
from ..memory import META, pool
from .engine import GraphTask
from .node import GradientEdge, gradient_edge
from .ops.cast import to_dtype
from .variable import Variable

TensorOrTensors = Any


def _as_tuple(values: Any) -> tuple[Any, ...]:
    if values is None:
        return ()
    if isinstance(values, Variable | GradientEdge):
        return (values,)
    return tuple(values) if isinstance(values, Iterable) else (values,)


def _filled_like(tensor: Any, value: int) -> Any:
    array, storage = pool(tensor._storage.device).lease(tensor._array.shape, tensor._array.dtype, "temporary")
    if storage.device is not META:
        backend(storage.device.type).fill(array, value)
    return Variable._tensor_class._wrap(array, storage)


def _seed(number: int, root: Any, given: Any) -> Any:
    """The gradient that enters at a root."""
    if given is None:
        if root._array.size != 1:
            raise RuntimeError(
                f"grad can be implicitly created only for scalar outputs, but output {number} has shape"
                f" {list(root._array.shape)}; pass a gradient of that shape, or reduce it first (.sum())"
            )
        return _filled_like(root, 1)
    if not isinstance(given, Variable):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(given).__name__} for output {number}")
    if given._array.shape != root._array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{number}] has a shape of {list(given._array.shape)} and output[{number}]"
            f" has a shape of {list(root._array.shape)}."
        )
    if (given._array.dtype.kind == "c") != (root._array.dtype.kind == "c"):
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype:"
            f" grad_output[{number}] has a dtype of {given._array.dtype} and output[{number}] has a dtype of"
            f" {root._array.dtype}."
        )
    return given if given._array.dtype == root._array.dtype else to_dtype(given, root._array.dtype)


def _roots(tensors: tuple[Any, ...], gradients: tuple[Any, ...], task: GraphTask) -> list[tuple[Any, Any]]:
    if gradients and len(gradients) != len(tensors):
        raise RuntimeError(
            f"expected one gradient for each output, got {len(tensors)} outputs and {len(gradients)} gradients"
        )
    roots = []
    for number, root in enumerate(tensors):
        given = gradients[number] if gradients else None
        if not isinstance(root, Variable):
            raise TypeError(f"expected Tensors as outputs, got {type(root).__name__} at position {number}")
        if not root._requires_grad:
            raise RuntimeError(f"element {number} of tensors does not require grad and does not have a grad_fn")
        roots.append((gradient_edge(root), task.values.of(_seed(number, root, given))))
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
        tensors: one tensor or several; each needs a gradient of its shape unless it has one element.
        grad_tensors: the gradient at each of them (None for ones).
        retain_graph: keep what the graph saved, for another pass; ``create_graph`` by default.
        create_graph: record the pass itself, for higher derivatives.
        inputs: accumulate only into these.

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
    task = GraphTask(keep, create_graph, edges, accumulate=True)
    task.run(_roots(roots, _as_tuple(grad_tensors), task))


def grad(
    outputs: TensorOrTensors,
    inputs: TensorOrTensors,
    grad_outputs: TensorOrTensors | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of ``outputs`` for ``inputs``; the ``grad`` of leaves is not touched.

    Args:
        outputs: one tensor or several.
        inputs: tensors (or gradient edges) to differentiate for.
        grad_outputs: the gradient at each output (None for ones).
        retain_graph: keep what the graph saved; ``create_graph`` by default.
        create_graph: record the pass itself, for higher derivatives.
        allow_unused: give None for an input that the outputs do not depend on, where an error is the default.
        materialize_grads: give zeros for it.

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
    task = GraphTask(create_graph if retain_graph is None else retain_graph, create_graph, edges, accumulate=False)
    task.run(_roots(_as_tuple(outputs), _as_tuple(grad_outputs), task))
    results = []
    for number, (tensor, edge) in enumerate(zip(wanted, edges, strict=True)):
        found = task.captured[edge]
        if found is not None:
            results.append(task.values.tensor(found))
        elif materialize_grads:
            results.append(_filled_like(tensor, 0))
        elif allow_unused:
            results.append(None)
        else:
            raise RuntimeError(
                f"One of the differentiated Tensors appears to not have been used in the graph: input {number}."
                " Set allow_unused=True if this is the desired behavior."
            )
    return tuple(results)


def _edge_of_input(number: int, tensor: Any) -> Any:
    if isinstance(tensor, GradientEdge):
        return (tensor.node, tensor.output_nr)
    if not isinstance(tensor, Variable):
        raise TypeError(f"expected Tensors as inputs, got {type(tensor).__name__} at position {number}")
    if not tensor._requires_grad:
        raise RuntimeError(f"One of the differentiated Tensors does not require grad: input {number}")
    return gradient_edge(tensor)
