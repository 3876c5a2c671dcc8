"""``tensor[...]``: which indices are views, which are copies, and writing where they look.

NOTE [ Indices ]
1. Integers, slices, ``...`` and None are basic: they give a view, and a write goes through that view.
2. Tensors, arrays and lists of integers or bools are advanced: they give a copy. Beside basic ones, the basic ones are
   applied first, as in PyTorch; bools are turned into the integers where they are true.
3. What advanced indices select is one row after another of the tensor in which their dimensions come first and count as
   one: indices of several dimensions become numbers of rows.
4. The selected elements stand where the first advanced index stood if all of them stand side by side, first otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..memory import Device
from . import inplace
from .dispatch import SCALARS
from .ops.cast import copy_array_to, to_device
from .ops.overwrite import IndexPut, index_put
from .ops.shape import gather, index, permute, reshape
from .ops.sum_to import expand
from .record import broadcast_shapes
from .variable import Variable

_BASIC = (int, slice, type(None), type(Ellipsis), np.integer)


def _is_basic(part: Any) -> bool:
    return isinstance(part, _BASIC) and not isinstance(part, bool)


def _plain(part: Any) -> Any:
    return int(part) if isinstance(part, np.integer) else part


def getitem(tensor: Any, key: Any) -> Any:
    """The elements that a key selects: a view for integers, slices, ``...`` and None, a copy for a tensor or list.

    Raises:
        IndexError: for a key out of range or of the wrong type.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if all(_is_basic(part) for part in keys):
        return index(tensor, tuple(_plain(part) for part in keys))
    if len(keys) == 1:
        return gather(tensor, as_indices(keys[0], tensor._storage.device))
    chosen = _chosen(tensor, keys)
    rest = chosen.ahead._array.shape[chosen.dims :]
    found = gather(reshape(chosen.ahead, (chosen.rows, *rest)), chosen.numbers)
    return permute(reshape(found, (*chosen.shape, *rest)), chosen.back)


def setitem(tensor: Any, key: Any, value: Any) -> None:
    """Write into the elements that a key selects; the value is broadcast, and cast if the key is a basic one.

    Raises:
        IndexError: as `getitem`.
        RuntimeError: for a value that does not fit, and as in-place operations.
    """
    keys = key if isinstance(key, tuple) else (key,)
    dtype = tensor._array.dtype
    if not isinstance(value, (Variable, *SCALARS, np.number, np.bool_)):
        array = np.asarray(value).astype(dtype)
        value = Variable._tensor_class._wrap(*copy_array_to(array, tensor._storage.device, "temporary"))
    if all(_is_basic(part) for part in keys):
        _assign(_basic_target(tensor, tuple([_plain(part) for part in keys]), value), value)
    elif isinstance(value, Variable) and value._array.dtype != dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {dtype} for the destination and"
            f" {value._array.dtype} for the source."
        )
    elif len(keys) == 1 and _is_mask_of_all(keys[0], tensor) and not _ndim(value):
        inplace.masked_fill_(tensor, as_indices(keys[0], tensor._storage.device), value)
    else:
        _put(tensor, keys, value)


def _basic_target(tensor: Any, keys: tuple[Any, ...], value: Any) -> Any:
    """What basic indices look at: a view, or, where nothing is recorded, a tensor that nobody need know of."""
    if inplace.is_recorded(tensor, value):
        return index(tensor, keys)
    return tensor._wrap(index.view(tensor._array, keys), tensor._storage)


def _assign(target: Any, value: Any) -> None:
    if isinstance(value, Variable):
        inplace.copy_(target, _fitted(value, target._array.shape))
    else:
        inplace.fill_(target, value)


def _fitted(value: Any, shape: tuple[int, ...]) -> Any:
    """A value without the leading dimensions of size 1 that its target does not have."""
    sizes = value._array.shape
    while len(sizes) > len(shape) and sizes[0] == 1:
        sizes = sizes[1:]
    return value if sizes == value._array.shape else reshape(value, sizes)


def _ndim(value: Any) -> int:
    return value._array.ndim if isinstance(value, Variable) else 0


def _is_mask_of_all(key: Any, tensor: Any) -> bool:
    array = getattr(key, "_array", key)
    return hasattr(array, "dtype") and array.dtype.kind == "b" and array.shape == tensor._array.shape


# -- advanced indices (note, rules 2 to 4) ---------------------------------------------------------------------------


class _Chosen(NamedTuple):
    """What advanced indices select.

    Attributes:
        ahead: the tensor with the indexed dimensions first: a view.
        dims, rows: how many they are, and the number of rows that they make.
        numbers: a tensor of the rows' numbers, of any shape.
        shape: the shape of ``numbers``.
        back: the dimensions of ``(*shape, *rest)`` in the order in which they are in the result.
    """

    ahead: Any
    dims: int
    rows: int
    numbers: Any
    shape: tuple[int, ...]
    back: tuple[int, ...]


def _chosen(tensor: Any, keys: tuple[Any, ...]) -> _Chosen:
    device = tensor._storage.device
    found = [part if _is_basic(part) else as_indices(part, device) for part in keys]
    source, placed = _basic_first(tensor, found)
    sizes = source._array.shape
    dims: list[int] = []
    arrays: list[Any] = []
    for dim, indices in placed:
        covered = indices._array.ndim if indices._array.dtype == bool else 1
        _check(indices._array, dim, sizes[dim : dim + covered], sizes)
        dims += range(dim, dim + covered)
        arrays += indices._array.nonzero() if indices._array.dtype == bool else [indices._array]
    try:
        shape = np.broadcast_shapes(*[array.shape for array in arrays])
    except ValueError:
        listed = ", ".join(str(list(array.shape)) for array in arrays)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {listed}"
        ) from None
    numbers = _numbers(arrays, [sizes[dim] for dim in dims], device)
    others = [dim for dim in range(len(sizes)) if dim not in dims]
    ahead = permute(source, (*dims, *others))
    rows = int(np.prod([sizes[dim] for dim in dims]))
    before = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    lead = len(shape)
    back = (*range(lead, lead + before), *range(lead), *range(lead + before, lead + len(others)))
    return _Chosen(ahead, len(dims), rows, numbers, shape, back)


def _basic_first(tensor: Any, keys: list[Any]) -> tuple[Any, list[tuple[int, Any]]]:
    """The tensor with the basic indices applied, and for each advanced index the dimension where it begins."""
    covers = [_covers(part) for part in keys]
    missing = tensor._array.ndim - sum(covers)
    if missing < 0:
        raise IndexError(f"too many indices for tensor of dimension {tensor._array.ndim}")
    if not any(part is Ellipsis for part in keys):
        keys, covers = [*keys, Ellipsis], [*covers, 0]
    basic: list[Any] = []
    placed: list[tuple[int, Any]] = []
    dim = 0
    for part, covered in zip(keys, covers, strict=True):
        if isinstance(part, Variable):
            placed.append((dim, part))
            basic += [slice(None)] * covered
            dim += covered
        elif part is Ellipsis:
            basic += [slice(None)] * missing
            dim += missing
        else:
            basic.append(_plain(part))
            dim += not isinstance(part, int | np.integer)
    return index(tensor, tuple(basic)), placed


def _covers(part: Any) -> int:
    """How many dimensions of the tensor an index is for."""
    if isinstance(part, Variable):
        return part._array.ndim if part._array.dtype == bool else 1
    return 0 if part is None or part is Ellipsis else 1


def _check(indices: Any, dim: int, sizes: tuple[int, ...], all_sizes: tuple[int, ...]) -> None:
    if indices.dtype == bool:
        if indices.shape != sizes:
            raise IndexError(
                f"The shape of the mask {list(indices.shape)} at index {dim} does not match the shape of the indexed"
                f" tensor {list(all_sizes)} at index {dim}"
            )
    elif indices.dtype.kind not in "iu":
        raise IndexError(f"tensors used as indices must be integer or bool tensors, got {indices.dtype}")
    elif indices.size and (int(indices.min()) < -sizes[0] or int(indices.max()) >= sizes[0]):
        raise IndexError(f"index is out of bounds for dimension {dim} with size {sizes[0]}")


def _numbers(arrays: list[Any], sizes: list[int], device: Device) -> Any:
    """Indices of several dimensions as one: a tensor."""
    wrapped = [array.astype(np.int64) % max(size, 1) for array, size in zip(arrays, sizes, strict=True)]
    total = wrapped[0]
    for array, size in zip(wrapped[1:], sizes[1:], strict=True):
        total = total * size + array
    if isinstance(total, np.generic):  # of arrays without dimensions
        total = np.asarray(total)
    return Variable._tensor_class._wrap(*copy_array_to(total, device, "activation"))


def _put(tensor: Any, keys: tuple[Any, ...], value: Any) -> None:
    """Write where advanced indices look (note, rule 3)."""
    inplace.check_writable("__setitem__", tensor, value)
    chosen = _chosen(tensor, keys)
    target = chosen.ahead
    rest = target._array.shape[chosen.dims :]
    given = value
    if isinstance(value, Variable):
        found = (*chosen.shape, *rest)
        given = _arranged(value, tuple(found[dim] for dim in chosen.back), chosen.back)
        if given._storage.device is not target._storage.device:
            given = to_device(given, target._storage.device)
    values, numbers = getattr(given, "_array", given), chosen.numbers._array

    def fill(_: Any) -> list[Any]:
        if target._storage.device.type != "meta":
            IndexPut.put(target._array, values, numbers, chosen.dims)
        return []

    inplace.write(
        index_put,
        (target, given, chosen.numbers),
        0,
        lambda: index_put.attrs(target._array, values, numbers, chosen.dims),
        fill,
    )


def _arranged(value: Any, shape: tuple[int, ...], back: tuple[int, ...]) -> Any:
    """A value of (or broadcast to) the shape of a selection, with the dimensions of the selected rows first."""
    value = _fitted(value, shape)
    try:
        fits = broadcast_shapes("__setitem__", value._array.shape, shape) == shape
    except RuntimeError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(value._array.shape)} cannot be broadcast to indexing result"
            f" of shape {list(shape)}"
        )
    if back == tuple(range(len(back))):
        return value
    return permute(expand(value, shape), tuple(back.index(dim) for dim in range(len(back))))


def as_indices(key: Any, device: Device) -> Any:
    """An index tensor on a device, from a tensor, an array or a list.

    Raises:
        IndexError: for anything else.
    """
    if isinstance(key, Variable):
        return key if key._storage.device is device else to_device(key, device)
    if isinstance(key, list | np.ndarray):
        array = np.asarray(key)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind in "iub":
            return Variable._tensor_class._wrap(*copy_array_to(array, device, "temporary"))
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and integer or bool tensors are valid indices"
        f" (got {type(key).__name__})"
    )
