"""Ops on plain tensors of the CPU: the way of `dispatch` with its questions asked once.

`WholeOp` has element-wise ops on floats that are too many for the ways of `small_unary` and `small_binary`, which let
NumPy allocate the result, and on a tensor and a Python number. `apply_alone` has ops on one tensor, with attributes;
`apply_together` has ops on several, with several results, of few floats by the ``small_marked`` of a `FewOp`.
What is not plain (casts, other devices, observers, followers, autocast, inference mode) goes the general way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import CPU, SMALL_BYTES, Device, Storage, events
from ..saved_tensors.state import current
from . import dispatch
from .dispatch import FLOAT32, FLOAT64, Op, apply, cpu_pool, record
from .record import Record, broadcast_shapes
from .variable import Variable

_ndarray = np.ndarray
_NUMBERS = (float, int)


class WholeOp(Op):
    """An op one kernel of which takes floats to floats of the same dtype.

    Attributes:
        kernel_name: the name of that kernel.
        plain: whether that is all there is to it; the kernel then writes into any strides, too.
    """

    kernel_name = ""
    plain = False
    _compute: Any = None

    def computed(self, category: str, a: Any, *others: Any) -> tuple[Any, Storage] | None:
        """The result on one array or two operands of the CPU with its storage; None where this way does not apply."""
        first = a if type(a) is _ndarray else others[0] if others else None
        if type(first) is not _ndarray or events.observers:
            return None
        dtype, shape = first.dtype, first.shape
        if dtype is not FLOAT32 and dtype is not FLOAT64:
            return None
        if others:
            other = others[0] if first is a else a
            if type(other) is _ndarray:
                if other.dtype is not dtype:
                    return None
                if other.shape != shape:
                    shape = broadcast_shapes(self.name, a.shape, other.shape)
            elif type(other) not in _NUMBERS:
                return None
        result, storage = cpu_pool().lease_or_adopt(shape, dtype, category)
        compute = self._compute
        if compute is None:
            compute = self._compute = getattr(backend("cpu"), self.kernel_name)
        compute(a, *others, result)
        return result, storage

    def whole(self, *operands: Any) -> Any:
        """The op on tensors and numbers; None where this way does not apply."""
        state, source = current(), cpu_pool()
        if state.followers or state.inference or dispatch.cast_arguments is not None:
            return None
        arrays, needs = [], []
        for value in operands:
            if isinstance(value, Variable):
                if value._storage.pool is not source:
                    return None
                arrays.append(value._array)
                needs.append(value._requires_grad)
            elif type(value) in _NUMBERS:
                arrays.append(value)
                needs.append(False)
            else:  # an array of NumPy, which becomes a constant tensor: it is kept for backward
                return None
        found = self.computed("activation", *arrays)
        if found is None:
            return None
        out = Variable._tensor_class._wrap(*found)
        if state.grad_enabled and True in needs:
            record(self, tuple(needs), operands, [out], self.attrs(*arrays), CPU)
        return out


def is_few(array: Any) -> bool:
    """Whether an op computes this by its ``small``, however it is called: sums in another order have other bits."""
    if type(array) is not _ndarray or array.nbytes >= SMALL_BYTES:
        return False
    return (array.dtype is FLOAT32 or array.dtype is FLOAT64) and bool(array.ndim and array.size)


def apply_alone(op: Any, x: Any, *attrs: Any) -> Any:
    """`apply` of an op on one tensor: of few floats by the op's ``small``, of others without what is asked for many.

    An op with auxiliary results has ``small_marked``, which gives them all.
    """
    state, source = current(), cpu_pool()
    if (
        not isinstance(x, Variable)
        or x._storage.pool is not source
        or state.followers
        or state.inference
        or events.observers
        or dispatch.cast_arguments is not None
    ):
        return apply(op, x, *attrs)
    array = x._array
    several = op.auxiliary or op.outputs > 1
    small = op.small_marked if several else op.small
    if small is not None and is_few(array):
        made = small(array, *attrs)
        results = [(each, source.adopt_small(each, "activation")) for each in (made if several else (made,))]
    else:
        results = _leased(op, array, attrs)
    wrap = Variable._tensor_class._wrap
    outs = [wrap(*result) for result in results]
    if x._requires_grad and state.grad_enabled and op.differentiable:
        record(op, (True,), (x,), outs, op.attrs(array, *attrs), CPU)
    return outs[0] if op.outputs == 1 else tuple(outs[: op.outputs])


class FewOp(Op):
    """An op of which ``small_marked`` computes few floats, as they lie in memory; None where it does not apply.

    Attributes:
        decisive: the number of the argument that says how many there are: others go with it, which `infer` checks.
    """

    decisive = 0

    def takes_few(self, args: Sequence[Any]) -> bool:
        """Whether ``small_marked`` is asked."""
        return is_few(args[self.decisive])

    def fills(self, args: tuple[Any, ...], outs: Sequence[Any]) -> bool:
        """Fill the results for few floats, those that are needed; what ``kernel`` asks first, for the same bits."""
        made = self.small_marked(*args) if self.takes_few(args) else None
        if made is None:
            return False
        if self.rearranges:
            made = self.arranged(made)
        for value, out in zip(made, outs, strict=True):
            if value is not None:
                np.copyto(out, value)
        return True

    def run_arrays(self, device: Device, *args: Any) -> Any:
        if device is CPU and not events.observers and self.takes_few(args):
            made = self.small_marked(*args)
            if made is not None:
                adopt = cpu_pool().adopt_small
                for result in made:
                    if result is not None and result.nbytes < SMALL_BYTES:  # larger ones are leased
                        adopt(result, "temporary")
                if self.rearranges:
                    made = tuple(self.arranged(made))
                return made[0] if self.outputs == 1 else made[: self.outputs]
        return super().run_arrays(device, *args)


def apply_together(op: Op, *args: Any) -> Any:
    """`apply` of an op on several tensors, or None in place of some; of few floats by the op's ``small_marked``."""
    state, source = current(), cpu_pool()
    if state.followers or state.inference or events.observers or dispatch.cast_arguments is not None:
        return apply(op, *args)
    arrays, needs = list(args), []
    for number in range(op.inputs):
        value = args[number]
        if value is None:
            needs.append(False)
        elif isinstance(value, Variable) and value._storage.pool is source:
            arrays[number] = value._array
            needs.append(value._requires_grad)
        else:
            return apply(op, *args)
    made = None
    if op.small_marked is not None and (op.takes_few(arrays) if isinstance(op, FewOp) else is_few(arrays[0])):
        op.infer(*arrays)
        made = op.small_marked(*arrays)
    if made is None:
        results = dispatch.execute(op, CPU, arrays, "activation")
    else:
        results = [(each, source.adopt_small(each, "activation")) for each in made]
        if op.rearranges:
            results = [(array, storage) for array, (_, storage) in zip(op.arranged(made), results)]
    wrap = Variable._tensor_class._wrap
    outs = [wrap(*result) for result in results]
    if True in needs and state.grad_enabled:
        record(op, tuple(needs), args[: op.inputs], outs, op.attrs(*arrays), CPU)
    return outs[0] if op.outputs == 1 else tuple(outs[: op.outputs])


def _leased(op: Record, array: Any, attrs: tuple[Any, ...]) -> list[tuple[Any, Storage]]:
    if op.rearranges or op.has_workspace:
        return dispatch.execute(op, CPU, [array, *attrs], "activation")
    take = cpu_pool().lease_or_adopt
    results = [take(shape, dtype, "activation") for shape, dtype in op.infer(array, *attrs)]
    op.kernel(backend("cpu"), array, *attrs, *[result for result, _ in results])
    return results
