"""Tensors of one shape along a new dimension."""

from __future__ import annotations

import functools
from typing import Any

from ..dispatch import Op
from ..plain import apply_plain, small_result
from ..record import Do, Spec, normalize_dim
from ..variable import Variable
from .cast import to_dtype
from .promotion import promote
from .shape import index


class Stack(Op):
    """A number of tensors of one shape and dtype along a new dimension."""

    name = "stack"
    fresh = False

    def __init__(self, count: int) -> None:
        super().__init__()
        self.inputs = count

    def infer(self, *args: Any) -> tuple[Spec, ...]:
        *arrays, dim = args
        first = arrays[0]
        for number, array in enumerate(arrays[1:], start=1):
            if array.shape != first.shape:
                raise RuntimeError(
                    f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and"
                    f" {list(array.shape)} at entry {number}"
                )
        return (((*first.shape[:dim], len(arrays), *first.shape[dim:]), first.dtype),)

    def small(self, *args: Any) -> Any:
        *arrays, dim = args
        out = small_result(*self.infer(*args))
        if out is not None:
            lead = (slice(None),) * dim
            for number, array in enumerate(arrays):
                out[(*lead, number)] = array
        return out

    def kernel(self, k: Any, *args: Any) -> None:
        *arrays, dim, out = args
        for number, array in enumerate(arrays):
            k.copy(array, out[(*[slice(None)] * dim, number, ...)])

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (dim,) = node.op_attrs
        lead = [slice(None)] * dim
        return tuple(
            [do(index, grads[0], (*lead, number)) if needed else None for number, needed in enumerate(node.needs_grad)]
        )


def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of one shape along a new dimension.

    Raises:
        RuntimeError: if there are none, or their shapes differ.
        TypeError: if one of them is no tensor.
    """
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    for number, tensor in enumerate(tensors):
        if not isinstance(tensor, Variable):
            raise TypeError(f"stack: expected a Tensor as element {number}, got {type(tensor).__name__}")
    dtype = functools.reduce(promote, [tensor._array.dtype for tensor in tensors])
    tensors = tuple([tensor if tensor._array.dtype == dtype else to_dtype(tensor, dtype) for tensor in tensors])
    return apply_plain(_stack_of(len(tensors)), tensors, normalize_dim("stack", dim, tensors[0]._array.ndim + 1))


@functools.lru_cache(maxsize=64)
def _stack_of(count: int) -> Stack:
    return Stack(count)
