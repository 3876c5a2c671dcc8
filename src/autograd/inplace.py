"""Writing into tensors: the checks, the version, the write, and the history that comes of it.

NOTE [ A write ]
1. All checks come first. An operand that must be cast, and what backward will read of the inputs, is made and packed
   before anything is written.
2. A target whose former value backward needs is copied first; that private copy has the target's former history.
3. The version counts before the kernel runs: a write that fails half-way is noticed by those who saved the value.
4. Outputs are packed after the kernel has written them. Where hooks are active the former value is kept until they have
   returned, so that a failure leaves value, version and history as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import backend
from ..memory import CPU, META, Device, events, pool
from ..memory.storage import UserStorage
from ..saved_tensors.mutation import before_write
from ..saved_tensors.state import current
from .arrays import overlaps_itself
from .dispatch import SCALARS, common_device, save
from .history import check_history, rebase
from .node import NO_EDGE, Node, gradient_edge, next_number
from .ops.cast import copy_between, to_dtype
from .ops.elementwise import where
from .ops.marks import Marking
from .ops.overwrite import CopyInto, Overwrite
from .ops.pointwise import Binary, Unary
from .ops.pointwise import number as as_operand
from .ops.promotion import category
from .random import Generator, chosen
from .record import Record, Slot, Spec, broadcast_shapes
from .variable import Variable
from .view_op import view_of

# Writes, given the array that holds the target's former value; returns what only the node gets.
Fill = Callable[[Any], list[Any]]
_BOOL = np.dtype(bool)
_copy_into = CopyInto()
_DRAWS = ("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "random", "uniform")
_overwrites = {name: Overwrite(name) for name in ("fill", "zero", *_DRAWS)}


# -- checks ----------------------------------------------------------------------------------------------------------


def check_writable(name: str, target: Any, *operands: Any) -> None:
    """Raise if a tensor may not be written in place now.

    Raises:
        RuntimeError: for a leaf that requires grad (or a view of one), for views that must not be written while
            gradients are recorded, for memory in which elements overlap, and for inference tensors outside of the mode.
    """
    state = current()
    if is_recorded(target, *operands):
        check_history(name, target)
    if target._storage.is_inference and not state.inference:
        raise RuntimeError(
            f"{name}: Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to"
            " get a normal tensor before doing inplace update."
        )
    if type(target._storage) is UserStorage and target._storage.device is CPU and not target._array.flags.writeable:
        raise RuntimeError(
            f"{name}: the memory of the tensor is marked as one that must not be written (a NumPy array that is not"
            " writeable, or another library's); clone() the tensor first"
        )
    if overlaps_itself(target._array) and target._storage.device is not META:
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single"
            " memory location. Please clone() the tensor before performing the operation."
        )


def is_recorded(target: Any, *operands: Any) -> bool:
    """Whether a write is to be recorded: the target, what it views or an operand requires grad."""
    if not current().grad_enabled:
        return False
    view = view_of(target)
    needed = target._requires_grad or (view is not None and view.base._requires_grad)
    needed = needed or True in [isinstance(value, Variable) and value._requires_grad for value in operands]
    return needed and category(target._array.dtype) >= 2


def _check_fit(name: str, target: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    if shape != target.shape and np.broadcast_shapes(target.shape, shape) != target.shape:
        raise RuntimeError(
            f"{name}: output with shape {list(target.shape)} doesn't match the broadcast shape of {list(shape)}"
        )
    if category(dtype) > category(target.dtype):
        raise RuntimeError(f"{name}: result type {dtype} can't be cast to the desired output type {target.dtype}")


def _check_float(op: Any, target: Any) -> None:
    if isinstance(op, Unary) and op.to_float and category(target.dtype) < 2:
        raise RuntimeError(f"{op.name}_: result type float can't be cast to the desired output type {target.dtype}")


# -- the write -------------------------------------------------------------------------------------------------------


def write(op: Record, tensors: tuple[Any, ...], position: int, attrs: Callable[[], Any], fill: Fill) -> Any:
    """Change a tensor in place, and record it if a gradient may be asked for.

    Args:
        op: whose derivative it is, with the former value of the target among its inputs.
        tensors: the inputs: tensors or numbers.
        position: which of them is the target.
        attrs: says what the derivative must know besides saved values.
        fill: does it.

    Raises:
        Exception: whatever a pack hook raises; nothing has changed then.
    """
    if not events.observers:
        return _write(op, tensors, position, attrs, fill)
    with events.span("op", f"{op.name}_", op):
        return _write(op, tensors, position, attrs, fill)


def _write(op: Record, tensors: tuple[Any, ...], position: int, attrs: Callable[[], Any], fill: Fill) -> Any:
    target = tensors[position]
    for follower in current().followers:
        follower.written(op.name, tensors, target)
    if is_recorded(target, *tensors):
        _recorded(op, tensors, position, attrs(), fill)
    else:
        before_write(target._storage)
        target._storage.version += 1
        fill(target._array)
    return target


def _recorded(op: Record, tensors: tuple[Any, ...], position: int, attrs: Any, fill: Fill) -> None:
    target = tensors[position]
    node = Node()
    node.record = op
    node.needs_grad = needs = tuple([isinstance(value, Variable) and value._requires_grad for value in tensors])
    node.op_attrs = attrs
    node.run_device = target._storage.pool.device
    node.num_outputs = 1
    node.node_hooks = None
    pairs = zip(tensors, needs, strict=True)
    node.next_edges = tuple([gradient_edge(value) if needed else NO_EDGE for value, needed in pairs])
    plan = op.plan(needs)
    former = _former_value(op, plan, target, position)
    inputs = [former if number == position else value for number, value in enumerate(tensors)]
    saved = [_save(op, slot, inputs, node.next_edges) if slot and not slot.output else None for slot in plan]
    before_write(target._storage)
    version = target._storage.version
    target._storage.version = version + 1
    try:
        outputs = [target, *fill(target._array if former is None else former._array)]
        for number, slot in enumerate(plan):
            if slot is not None and slot.output:
                own = slot.position if slot.position < op.outputs else -1
                saved[number] = save(op, slot.name, outputs[slot.position], None, own)
    except BaseException:
        if former is not None:  # note, rule 4
            _copy(former._array, target._array, target._storage.device)
            target._storage.version = version
        raise
    node.saved_variables = tuple(saved)
    if target._array.dtype.kind == "c":
        node.record = op.for_complex()
    node.sequence_nr = next_number()
    rebase(target, node, position)


def _no_attrs() -> None:
    """For derivatives that need to know nothing."""


def _former_value(op: Record, plan: tuple[Slot | None, ...], target: Any, position: int) -> Any:
    """A copy of the target with its history, if backward needs that or saving may fail (note, rules 2 and 4)."""
    slots = [slot for slot in plan if slot is not None]
    needed = any(not slot.output and slot.position == position for slot in slots)
    may_fail = current().hooks or target._array.dtype.kind == "c"
    if not needed and not (may_fail and any(slot.output for slot in slots)):
        return None
    array, storage = pool(target._storage.device).lease(
        target._array.shape, target._array.dtype, "activation" if needed else "temporary"
    )
    _copy(target._array, array, storage.device)
    copy = Variable._tensor_class._wrap(array, storage)
    copy._grad_fn, copy._output_nr, copy._requires_grad = target._grad_fn, target._output_nr, target._requires_grad
    return copy


def _save(op: Record, slot: Slot, inputs: list[Any], edges: tuple[Any, ...]) -> Any:
    value, edge = inputs[slot.position], edges[slot.position]
    if not isinstance(value, Variable):
        return None
    return save(op, slot.name, value, edge if edge[0] is not None else None, -1)


def _copy(source: Any, target: Any, device: Device) -> None:
    if device is not META:
        backend(device.type).copy(source, target)


def _run_into(
    op: Any, args: tuple[Any, ...], specs: tuple[Spec, ...], target: Any, device: Device, aliased: bool
) -> list[Any]:
    """Compute an op with its result in the memory of an array; returns its auxiliary results.

    Args:
        specs: what ``op.infer`` says of the results.
        aliased: whether operands may lie in the same memory in another order.
    """
    source, (shape, dtype) = pool(device), specs[0]
    auxiliary = [source.lease(*spec, category="activation") for spec in specs[1:]]
    if device is not META:
        k = backend(device.type)
        strided = getattr(op, "plain", False) and device is CPU
        direct = not aliased and dtype == target.dtype and (strided or target.flags.c_contiguous)
        for value in args:
            if getattr(value, "dtype", dtype) not in (dtype, _BOOL):
                direct = False
        if direct:
            op.kernel(k, *args, target, *[array for array, _ in auxiliary])
        else:
            result, _ = source.lease(shape, dtype, "temporary")
            op.kernel(k, *args, result, *[array for array, _ in auxiliary])
            k.copy(result, target)
    wrap = Variable._tensor_class._wrap
    return [wrap(array, storage) for array, storage in auxiliary]


def _overlaps(value: Any, target: Any) -> bool:
    """Whether an operand lies in the target's memory, but not element on element."""
    if not isinstance(value, Variable) or value._storage is not target._storage:
        return False
    a, b = value._array, target._array
    same = a.shape == b.shape and a.strides == b.strides and _address(a) == _address(b)
    return not same


def _address(array: Any) -> int:
    return int(array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr)


# -- the operations --------------------------------------------------------------------------------------------------


def unary_(op: Any, target: Any) -> Any:
    """``target = op(target)``, in the memory of ``target``."""
    name = f"{op.name}_"
    check_writable(name, target)
    array, device = target._array, target._storage.device
    op = _lightest(op, target)
    _check_float(op, array)
    specs = op.infer(array)
    if specs[0][1].kind == "f" and array.dtype.kind == "c":
        raise RuntimeError(f"In-place {op.name} is not supported for complex tensors.")
    _check_fit(name, array, *specs[0])

    def fill(x: Any) -> list[Any]:
        return _run_into(op, (x,), specs, array, device, False)

    return write(op, (target,), 0, lambda: op.attrs(array), fill)


def _lightest(op: Any, target: Any, *operands: Any) -> Any:
    """An op, without marks for backward where nothing is recorded."""
    return op if not isinstance(op, Marking) or is_recorded(target, *operands) else op.unmarked


def op_(op: Any, position: int, *args: Any) -> Any:
    """``op(*args)`` in the memory of the tensor at a position among its inputs."""
    name = f"{op.name}_"
    operands, attrs = list(args[: op.inputs]), args[op.inputs :]
    target = operands[position]
    check_writable(name, target, *operands)
    device = common_device(name, tuple(operands))
    array = target._array
    op = _lightest(op, *operands[position:], *operands[:position])
    _check_float(op, array)
    arrays = [getattr(value, "_array", value) for value in operands]
    specs = op.infer(*arrays, *attrs)
    _check_fit(name, array, *specs[0])
    aliased = False
    for number, value in enumerate(operands):
        if isinstance(value, Variable) and number != position:
            aliased = aliased or value._storage is target._storage
            if value._array.dtype != array.dtype and category(value._array.dtype) > 1 and is_recorded(target, value):
                operands[number] = to_dtype(value, array.dtype)  # for the derivative

    def fill(x: Any) -> list[Any]:
        given = (*arrays[:position], x, *arrays[position + 1 :], *attrs)
        return _run_into(op, given, specs, array, device, aliased)

    def known() -> Any:
        return op.attrs(*[getattr(value, "_array", value) for value in operands], *attrs)

    return write(op, tuple(operands), position, known, fill)


def binary_(op: Binary, target: Any, other: Any) -> Any:
    """``target = op(target, other)``, in the memory of ``target``."""
    name = f"{op.name}_"
    other = as_operand(other)
    check_writable(name, target, other)
    array, value = target._array, other._array if isinstance(other, Variable) else other
    specs = op.infer(array, value)
    _check_fit(name, array, *specs[0])
    device = common_device(name, (target, other))
    operand = other
    if array.dtype.kind == "u" and isinstance(other, Variable) and value.dtype.kind == "i" and not value.ndim:
        value = to_dtype(other, array.dtype)._array  # NumPy would compute in a wider dtype, and not write it here
    if isinstance(other, Variable) and other._array.dtype != array.dtype and is_recorded(target, other):
        operand = to_dtype(other, array.dtype)  # for the derivative; the value comes of what was given
    aliased = _overlaps(other, target)

    def fill(x: Any) -> list[Any]:
        return _run_into(op, (x, value), specs, array, device, aliased)

    return write(op, (target, operand), 0, lambda: op.attrs(array, getattr(operand, "_array", operand)), fill)


def copy_(target: Any, source: Any) -> Any:
    """Fill a tensor with another's values, which are broadcast and cast, from any device."""
    if not isinstance(source, Variable):
        raise TypeError(f"copy_: expected a Tensor to copy, got {type(source).__name__}")
    check_writable("copy_", target, source)
    array, values = target._array, source._array
    if values.shape != array.shape and broadcast_shapes("copy_", array.shape, values.shape) != array.shape:
        raise RuntimeError(
            f"copy_: The expanded size of the tensor {list(array.shape)} must match the existing size"
            f" {list(values.shape)}"
        )
    device = target._storage.device

    def fill(_: Any) -> list[Any]:
        if device is META:
            return []
        given = values
        if _overlaps(source, target):
            given, _ = pool(device).lease(values.shape, values.dtype, "temporary")
            copy_between(values, given)
        copy_between(given, array)
        return []

    return write(_copy_into, (target, source), 0, lambda: (values.shape, values.dtype, source._storage.device), fill)


def is_written_already(target: Any, source: Any) -> bool:
    """Whether copying would change neither values nor history, as at the end of ``x[1:] += y``; the version counts.

    That is so where ``source`` looks at the same elements through the same base, which knows it, and has no hooks.

    Raises:
        RuntimeError: if the target may not be written.
    """
    if not isinstance(source, Variable) or source._storage is not target._storage or current().followers:
        return False
    a, b = source._array, target._array
    if a.shape != b.shape or a.strides != b.strides or a.dtype != b.dtype or _address(a) != _address(b):
        return False
    if is_recorded(target, source):
        view, other = view_of(source), view_of(target)
        if view is None or other is None or view.base is not other.base or view.origin is not None:
            return False
        node = source._grad_fn
        if node is None or node.node_hooks is not None:
            return False
    check_writable("copy_", target, source)
    target._storage.version += 1
    return True


_NUMBERS = (*SCALARS, np.generic, np.ndarray)


def fill_(target: Any, value: Any, name: str = "fill") -> Any:
    """Fill a tensor with a number, or with a tensor of no dimension."""
    if isinstance(value, Variable):
        if value._array.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value._array.ndim} dimensions."
            )
        return copy_(target, value)
    if not isinstance(value, _NUMBERS):
        raise TypeError(f"{name}_: expected a number or a Tensor as value, got {type(value).__name__}")
    check_writable(f"{name}_", target)

    def fill(_: Any) -> list[Any]:
        if target._storage.device is not META:
            backend(target._storage.device.type).fill(target._array, value)
        return []

    return write(_overwrites[name], (target,), 0, _no_attrs, fill)


def masked_fill_(target: Any, mask: Any, value: Any) -> Any:
    """Fill the elements where ``mask`` is true with a number or a tensor of no dimension."""
    name = "masked_fill_"
    check_writable(name, target, value)
    value = checked_fill_value(name, target, mask, value)
    array, device = target._array, common_device(name, (target, mask, value))
    bits, number = mask._array, getattr(value, "_array", value)
    _check_fit(name, array, np.broadcast_shapes(bits.shape, array.shape), array.dtype)
    aliased = _overlaps(mask, target) or _overlaps(value, target)

    specs = where.infer(bits, number, array)

    def fill(x: Any) -> list[Any]:
        return _run_into(where, (bits, number, x), specs, array, device, aliased)

    return write(where, (mask, value, target), 2, lambda: where.attrs(bits, number, array), fill)


def checked_fill_value(name: str, target: Any, mask: Any, value: Any) -> Any:
    """A value for the masked elements of a tensor, cast to the tensor's dtype.

    Raises:
        RuntimeError: for a mask that is not of bools, a tensor with dimensions, and a complex number for a real tensor.
        TypeError: for what is no number.
    """
    if not isinstance(mask, Variable) or mask._array.dtype != bool:
        found = mask._array.dtype if isinstance(mask, Variable) else type(mask).__name__
        raise RuntimeError(f"{name} only supports boolean masks, but got mask with dtype {found}")
    dtype = target._array.dtype
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Variable):
        if value._array.ndim:
            raise RuntimeError(
                f"{name} only supports a 0-dimensional value tensor, but got tensor with {value._array.ndim}"
                " dimension(s)."
            )
        rank = category(value._array.dtype)
    elif isinstance(value, SCALARS):
        rank = category(np.dtype(type(value)))
    else:
        raise TypeError(f"{name}: expected a number or a Tensor as value, got {type(value).__name__}")
    if rank == 3 > category(dtype):
        raise RuntimeError(f"{name}: value cannot be converted to type {dtype} without overflow")
    if isinstance(value, Variable):
        return value if value._array.dtype == dtype else to_dtype(value, dtype)
    return type(np.zeros((), dtype).item())(value) if dtype.kind in "biufc" else float(value)


def random_(name: str, target: Any, draw: str, generator: Generator | None, **keywords: float) -> Any:
    """Fill a tensor with random numbers, by the kernel called ``draw``; a complex one part by part."""
    check_writable(name, target)
    source = chosen(generator)
    array, device = target._array, target._storage.device
    parts = 2 if array.dtype.kind == "c" else 1
    key, counter = source.take(backend("cpu").counter_steps(parts * array.size))

    def fill(_: Any) -> list[Any]:
        if device is META:
            return []
        k = backend(device.type)
        drawn = array
        if not array.flags.c_contiguous:
            drawn, _ = pool(device).lease(array.shape, array.dtype, "temporary")
        if parts == 1:
            getattr(k, draw)(drawn, key=key, counter=counter, **keywords)
        else:
            settings = {"mean": 0.0, "std": keywords["std"] * 0.5**0.5} if draw == "normal" else keywords
            getattr(k, draw)(drawn.reshape(-1).view(drawn.real.dtype), key=key, counter=counter, **settings)
            if keywords.get("mean"):
                drawn.real += keywords["mean"]
        if drawn is not array:
            k.copy(drawn, array)
        return []

    return write(_overwrites.get(name.rstrip("_"), _overwrites["uniform"]), (target,), 0, _no_attrs, fill)
