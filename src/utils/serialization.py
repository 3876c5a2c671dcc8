"""Tensors in safetensors files, which PyTorch and others read and write too.

Reading goes through the ``safetensors`` package, which checks everything that a foreign or damaged file may claim.
Writing streams each tensor's own memory into the file, so that saving takes no second copy of a model.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
from safetensors import SafetensorError, safe_open

from ..autograd.tensor import Tensor
from ..memory import CPU, DeviceLike, as_device, pool
from .atomic import replacing

_CODES: dict[np.dtype[Any], str] = {
    np.dtype(kind): code
    for kind, code in (
        (np.bool_, "BOOL"),
        (np.uint8, "U8"),
        (np.int8, "I8"),
        (np.uint16, "U16"),
        (np.int16, "I16"),
        (np.uint32, "U32"),
        (np.int32, "I32"),
        (np.uint64, "U64"),
        (np.int64, "I64"),
        (np.float16, "F16"),
        (ml_dtypes.bfloat16, "BF16"),
        (np.float32, "F32"),
        (np.float64, "F64"),
        (np.complex64, "C64"),
    )
}
_DTYPES = {code: dtype for dtype, code in _CODES.items()}
_RESERVED = "__metadata__"
_ALIGNMENT = 8
_MOST_DIMENSIONS = 64  # of an array of NumPy's
_LARGEST = (1 << 63) // 8 - 1  # elements of one, of 8 bytes each


def save_file(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file, all or nothing: a file that is there stays until the new one is complete.

    Args:
        tensors: by name, for example a ``state_dict``; tensors that share memory are written once for each name.
        filename: the file.
        metadata: texts by name, kept in the file's header.

    Raises:
        TypeError: if a value is no tensor, or metadata are no texts.
        ValueError: for a dtype that the format lacks, or the name ``"__metadata__"``.
        OSError: if the file can't be written.
    """
    _check_texts(metadata or {})
    order = sorted(tensors, key=lambda name: (-_checked(name, tensors[name]).dtype.itemsize, name))
    header: dict[str, Any] = {_RESERVED: dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        array = tensors[name]._array
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _CODES[array.dtype], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with replacing(filename) as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for name in order:
            file.write(host_bytes(tensors[name]))


def load_file(filename: str | os.PathLike[str], device: DeviceLike | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name.

    Args:
        filename: the file.
        device: where they are put; the CPU by default.

    Raises:
        ValueError: if it is no safetensors file, is damaged, or has a dtype that NumPy lacks.
        OSError: if it can't be read.
    """
    target = as_device(device)
    file = SafetensorsFile(filename)
    tensors = {name: file.tensor(name) for name in file.names}
    return tensors if target is CPU else {name: tensor.to(device=target) for name, tensor in tensors.items()}


def load_metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The texts in the header of a safetensors file; the errors are those of `load_file`."""
    return SafetensorsFile(filename).metadata


class SafetensorsFile:
    """A safetensors file, open and checked: its header is right and fits its length.

    Attributes:
        path: its name.
        metadata: the texts in its header.
        specs: shape and dtype of each tensor.

    Raises:
        ValueError: if it is no safetensors file, is damaged, or has a dtype that NumPy lacks.
        OSError: if it can't be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        with open(self.path, "rb"):
            pass  # the package's errors do not name the file
        try:
            self._file = _opened(self.path)
            self.metadata: dict[str, str] = dict(self._file.metadata() or {})
            slices = {name: self._file.get_slice(name) for name in self._file.keys()}  # noqa: SIM118  # not a dict
            _check_keys(self.path)
        except (SafetensorError, _DuplicateError) as error:
            raise ValueError(
                f"{self.path}: expected a complete safetensors file, but it is damaged or something else ({error})"
            ) from error
        self.specs: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {
            name: (self._shape(name, part.get_shape()), self._dtype(name, part.get_dtype()))
            for name, part in slices.items()
        }

    def _shape(self, name: str, shape: list[int]) -> tuple[int, ...]:
        # where a size is 0, the others were compared with nothing
        if len(shape) > _MOST_DIMENSIONS or math.prod(max(size, 1) for size in shape) > _LARGEST:
            raise ValueError(
                f"{self.path}: tensor {name!r} has {len(shape)} dimensions of sizes that no array can have"
            )
        return tuple(shape)

    def _dtype(self, name: str, code: str) -> np.dtype[Any]:
        if code not in _DTYPES:
            raise ValueError(f"{self.path}: tensor {name!r} has the dtype {code}, expected one of {', '.join(_DTYPES)}")
        return _DTYPES[code]

    @property
    def names(self) -> list[str]:
        """The names of the tensors."""
        return list(self.specs)

    def array(self, name: str) -> np.ndarray[Any, Any]:
        """The values of a tensor in memory of NumPy's own, which no pool counts."""
        array: np.ndarray[Any, Any] = self._file.get_tensor(name)
        if array.dtype == np.bool_ and (array.reshape(-1).view(np.uint8) > 1).any():
            raise ValueError(f"{self.path}: tensor {name!r} says that it is BOOL, but has bytes other than 0 and 1")
        return array

    def tensor(self, name: str, category: str = "activation") -> Tensor:
        """A tensor on the CPU, its memory counted under ``category``."""
        shape, dtype = self.specs[name]
        array, storage = pool(CPU).lease(shape, dtype, category)
        with pool(CPU).charge(array.nbytes):
            np.copyto(array, self.array(name))
        tensor: Tensor = Tensor._wrap(array, storage)
        return tensor


class _DuplicateError(Exception):
    """A name that stands twice in a header, where readers may take the one or the other."""


def _check_keys(path: str) -> None:
    """See that no name stands twice in the header of a file that is right otherwise."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise _DuplicateError(f"the name {name!r} stands twice in its header")
            found[name] = value
        return found

    with open(path, "rb") as file:
        json.loads(file.read(int.from_bytes(file.read(8), "little")), object_pairs_hook=unique)


def _opened(path: str) -> Any:
    return safe_open(path, framework="np")


def host_bytes(tensor: Tensor) -> memoryview:
    """The values of a tensor in C order; a view of its own memory where that is possible.

    Raises:
        ValueError: for a tensor on the meta device, which has none.
    """
    if tensor.device.type == "meta":
        raise ValueError("a tensor on the meta device has no values to save")
    array = tensor.detach().cpu()._array
    if not array.flags.c_contiguous:
        copied, _ = pool(CPU).lease(array.shape, array.dtype, "temporary")
        np.copyto(copied, array)
        array = copied
    return bytes_of(array)


def bytes_of(array: np.ndarray[Any, Any]) -> memoryview:
    """The memory of a C-contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _checked(name: object, tensor: object) -> Tensor:
    if not isinstance(name, str) or name == _RESERVED:
        raise ValueError(f"a tensor cannot be saved under the name {name!r}: expected a text other than {_RESERVED!r}")
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name!r}: expected a Tensor to save, got {type(tensor).__name__}")
    if tensor._array.dtype not in _CODES:
        raise ValueError(
            f"{name!r}: safetensors has no dtype {tensor.dtype}; expected one of {', '.join(map(str, _CODES))}"
        )
    return tensor


def _check_texts(metadata: Mapping[str, str]) -> None:
    for name, value in metadata.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"metadata are texts by name, got {name!r}: {value!r}")
