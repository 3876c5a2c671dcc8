"""``tensor[...]``: which indices are views, which are copies, and writing where they look.

NOTE [ Indices ]
1. Integers, slices, ``...`` and None are basic: they give a view, and a write goes through that view.
2. Tensors, arrays and lists of integers or bools are advanced: they give a copy. Beside basic ones, the basic ones are
   applied first, as in PyTorch; bools are turned into the integers where they are true.
3. What several advanced indices select is read from a view of the tensor in which their dimensions come first.
4. The selected elements stand where the first advanced index stood if all of them stand side by side, first otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..kernels import backend
from ..memory import META, Device, pool
from . import inplace
from .dispatch import SCALARS
from .ops.cast import copy_array_to, to_device
from .ops.elementwise import ne
from .ops.index_at import index_many, index_put, index_put_accumulate
from .ops.scatter import index_select
from .ops.shape import gather, index, permute, reshape
from .ops.sum_to import expand
from .record import broadcast_shapes
from .variable import Variable

_INT64 = np.dtype(np.int64)
_BASIC = (int, slice, type(None), type(Ellipsis), np.integer)
_PLAIN = frozenset(_BASIC[:4])


class _Flag:
    """A bool as an index: a new dimension of size 1, kept if it is true.

    Attributes:
        index: the numbers to choose along it: 0, or none.
    """

    def __init__(self, value: bool, device: Device) -> None:
        self.index = as_indices([0] if value else [], device)


def _is_basic(part: Any) -> bool:
    return isinstance(part, _BASIC) and not isinstance(part, bool)


def _plain(part: Any) -> Any:
    return int(part) if isinstance(part, np.integer) else part


def getitem(tensor: Any, key: Any) -> Any:
    """The elements that a key selects: a view for integers, slices, ``...`` and None, a copy for a tensor or list.

    Raises:
        IndexError: for a key out of range or of the wrong type.
    """
    if isinstance(key, Variable) and _is_plain_index(key._array) and key._storage.device is tensor._storage.device:
        return gather(tensor, key)
    keys = key if type(key) is tuple else _as_tuple(key)
    if _PLAIN.issuperset(map(type, keys)):  # the usual case, of which nothing else is asked
        return index(tensor, keys)
    if all(_is_basic(part) for part in keys):
        return index(tensor, tuple(_plain(part) for part in keys))
    found = _indices(keys, tensor._storage.device)
    if len(found) == 1 and not isinstance(found[0], _Flag):
        return gather(tensor, found[0])
    source, placed = _basic_first(tensor, found)
    if len(placed) == 1 and placed[0][1]._array.dtype != bool:
        return _rows(source, *placed[0])
    chosen = _chosen(source, placed)
    selected = index_many(len(placed))(chosen.ahead, *chosen.indices, chosen.covers)
    return selected if chosen.back == tuple(range(len(chosen.back))) else permute(selected, chosen.back)


def _is_plain_index(array: Any) -> bool:
    """Whether an index is taken as it is: integers of 32 or 64 bits, or a mask with dimensions."""
    kind = array.dtype.kind
    return bool(array.dtype.itemsize >= 4 if kind == "i" else kind == "b" and array.ndim)


def _as_tuple(key: Any) -> tuple[Any, ...]:
    """A key as a tuple of keys; as in PyTorch, a list that holds more than numbers is one, too."""
    if isinstance(key, list) and any(
        part is None or part is Ellipsis or isinstance(part, slice | list | tuple | np.ndarray | Variable)
        for part in key
    ):
        return tuple(key)
    return key if isinstance(key, tuple) else (key,)


def _indices(keys: tuple[Any, ...], device: Device) -> list[Any]:
    """Keys as basic ones, tensors on a device, and flags."""
    found: list[Any] = []
    for part in keys:
        value, array = part, getattr(part, "_array", part)
        if hasattr(array, "dtype") and array.dtype == bool and not array.ndim:
            value = bool(array)
        if isinstance(value, bool | np.bool_):
            found.append(_Flag(bool(value), device))
        else:
            found.append(part if _is_basic(part) else as_indices(part, device))
    return found


def _rows(source: Any, dim: int, indices: Any) -> Any:
    """The elements along one dimension at the numbers of an integer tensor of any shape."""
    sizes, numbers = source._array.shape, indices._array
    _check(numbers, dim, sizes[dim : dim + 1], sizes)
    found = index_select(source, reshape(indices, (numbers.size,)), dim)
    return found if numbers.ndim == 1 else reshape(found, (*sizes[:dim], *numbers.shape, *sizes[dim + 1 :]))


def setitem(tensor: Any, key: Any, value: Any) -> None:
    """Write into the elements that a key selects; the value is broadcast, and cast if the key is a basic one.

    Raises:
        IndexError: as `getitem`.
        RuntimeError: for a value that does not fit, and as in-place operations.
    """
    keys = _as_tuple(key)
    dtype = tensor._array.dtype
    if not isinstance(value, (Variable, *SCALARS, np.number, np.bool_)):
        array = np.asarray(value)
        if array.dtype.kind in "OSU":
            raise TypeError(f"can't assign a {type(value).__name__} to a tensor: expected numbers or bools")
        array = array.astype(dtype)
        value = Variable._tensor_class._wrap(*copy_array_to(array, tensor._storage.device, "temporary"))
    if all(_is_basic(part) for part in keys):
        target = _basic_target(tensor, tuple([_plain(part) for part in keys]), value)
        if not inplace.is_written_already(target, value):
            _assign(target, value)
    elif isinstance(value, Variable) and value._array.dtype != dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {dtype} for the destination and"
            f" {value._array.dtype} for the source."
        )
    elif len(keys) == 1 and _is_mask_of_all(keys[0], tensor) and not _ndim(value):
        inplace.masked_fill_(tensor, as_indices(keys[0], tensor._storage.device), value)
    else:
        put_at(tensor, keys, value)


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
        indices: tensors of integers.
        covers: along how many dimensions each of them counts.
        shape: that to which they broadcast.
        back: the dimensions of ``(*shape, *rest)`` in the order in which they are in the result.
    """

    ahead: Any
    indices: list[Any]
    covers: tuple[int, ...]
    shape: tuple[int, ...]
    back: tuple[int, ...]


def _chosen(source: Any, placed: list[tuple[int, Any]]) -> _Chosen:
    """What advanced indices select, given with the dimensions where they begin."""
    sizes = source._array.shape
    dims: list[int] = []
    found: list[Any] = []
    covers = tuple([_covers(indices) for _, indices in placed])
    for (dim, indices), covered in zip(placed, covers, strict=True):
        _check(indices._array, dim, sizes[dim : dim + covered], sizes)
        dims += range(dim, dim + covered)
        found.append(_where(indices) if indices._array.dtype == bool else indices)
    try:
        shape = np.broadcast_shapes(*[indices._array.shape for indices in found])
    except ValueError:
        listed = ", ".join(str(list(indices._array.shape)) for indices in found)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {listed}"
        ) from None
    others = [dim for dim in range(len(sizes)) if dim not in dims]
    ahead = permute(source, (*dims, *others))
    before = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
    lead = len(shape)
    back = (*range(lead, lead + before), *range(lead), *range(lead + before, lead + len(others)))
    return _Chosen(ahead, found, covers, shape, back)


def _where(mask: Any) -> Any:
    """Where a mask is true, as numbers that count all of its dimensions as one."""
    array, device = mask._array, mask._storage.device
    source, count = pool(device), int(np.count_nonzero(array))
    numbers, storage = source.lease((count, 1), _INT64, "activation")
    if device is not META:
        with source.charge(8 * count + array.size):
            backend(device.type).nonzero(array.reshape(-1), numbers)
    return Variable._tensor_class._wrap(numbers.reshape(count), storage)


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
        elif isinstance(part, _Flag):
            placed.append((dim, part.index))
            basic.append(None)
            dim += 1
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
    return 0 if part is None or part is Ellipsis or isinstance(part, _Flag) else 1


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


def put_at(tensor: Any, keys: tuple[Any, ...], value: Any, accumulate: bool = False) -> None:
    """Write where advanced indices look (note, rule 3), or add there."""
    name = "index_put_" if accumulate else "__setitem__"
    inplace.check_writable(name, tensor, value)
    chosen = _chosen(*_basic_first(tensor, _indices(keys, tensor._storage.device)))
    target, covers = chosen.ahead, chosen.covers
    device = target._storage.device
    given = value
    if isinstance(value, Variable):
        found = (*chosen.shape, *target._array.shape[sum(covers) :])
        given = _arranged(value, tuple(found[dim] for dim in chosen.back), chosen.back)
        if given._storage.device is not device:
            given = to_device(given, device)
    values, indices = getattr(given, "_array", given), [part._array for part in chosen.indices]
    op = (index_put_accumulate if accumulate else index_put)(len(indices))

    def fill(_: Any) -> list[Any]:
        if device is not META:
            op.put(backend(device.type), target._array, values, indices, covers)
        return []

    operands = (target, given, *chosen.indices)
    inplace.write(op, operands, 0, lambda: op.attrs(target._array, values, *indices, covers), fill)


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
    """An index tensor on a device, from a tensor, an array or a sequence; uint8 is a mask, as PyTorch has it still.

    Raises:
        IndexError: for anything else.
    """
    if isinstance(key, Variable):
        dtype = key._array.dtype
        if dtype.kind not in "iub" or dtype.name in ("int8", "int16"):
            raise IndexError(
                f"tensors used as indices must be integer or bool tensors (int64, int32, uint8), got {dtype}"
            )
        key = key if key._storage.device is device else to_device(key, device)
        return ne(key, 0) if dtype == np.uint8 else key
    if isinstance(key, list | tuple | range | np.ndarray):
        array = np.asarray(key)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype == np.uint8:
            array = array != 0
        if array.dtype.kind in "iub":
            return Variable._tensor_class._wrap(*copy_array_to(array, device, "temporary"))
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and integer or bool tensors are valid indices"
        f" (got {type(key).__name__})"
    )
