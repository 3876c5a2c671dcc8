"""Dtypes by PyTorch's names, and what they can hold: NumPy's own dtype objects and those of ml_dtypes."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .ops.promotion import FLOAT8, bfloat16, category, combined, get_default_dtype, number_dtype, promote
from .queries import dtype_of
from .variable import Variable

dtype = np.dtype
bool_ = np.dtype(np.bool_)
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64))
int8, int16, int32, int64 = (np.dtype(f"int{bits}") for bits in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{bits}") for bits in (16, 32, 64))
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)
float8_e4m3fn = np.dtype(ml_dtypes.float8_e4m3fn)
float8_e4m3fnuz = np.dtype(ml_dtypes.float8_e4m3fnuz)
float8_e5m2 = np.dtype(ml_dtypes.float8_e5m2)
float8_e5m2fnuz = np.dtype(ml_dtypes.float8_e5m2fnuz)
float8_e8m0fnu = np.dtype(ml_dtypes.float8_e8m0fnu)

# Of PyTorch's old tensor types, such as torch.FloatTensor.
TYPE_NAMES = {
    bool_: "Bool",
    uint8: "Byte",
    uint16: "UInt16",
    uint32: "UInt32",
    uint64: "UInt64",
    int8: "Char",
    int16: "Short",
    int32: "Int",
    int64: "Long",
    float16: "Half",
    bfloat16: "BFloat16",
    float32: "Float",
    float64: "Double",
    complex64: "ComplexFloat",
    complex128: "ComplexDouble",
}


def type_name(kind: np.dtype[Any], device: str = "cpu") -> str:
    """The name of PyTorch's old tensor type for a dtype on a kind of device.

    >>> type_name(float32)
    'torch.FloatTensor'
    """
    place = "" if device == "cpu" else f"{device}."
    return f"torch.{place}{TYPE_NAMES.get(kind, kind.name.capitalize())}Tensor"


def dtype_of_type(name: str) -> Any:
    """The dtype of an old tensor type, by name.

    Raises:
        ValueError: if there is none.
    """
    last = name.rsplit(".", 1)[-1]
    for kind, short in TYPE_NAMES.items():
        if last == f"{short}Tensor":
            return kind
    raise ValueError(f"invalid type: {name!r}")


class finfo:  # noqa: N801  # PyTorch's name
    """The limits of a floating-point dtype, or of the parts of a complex one.

    Args:
        type: the dtype; the default one if none is given.

    Attributes:
        bits: how many an element has.
        dtype: the name of the dtype.
        eps: the distance from 1 to the next larger number.
        max, min: the largest number, and the smallest.
        resolution: the decimal resolution, a power of ten.
        smallest_normal, tiny: the smallest positive number of full precision.

    Raises:
        TypeError: for other dtypes.

    >>> finfo(float16).max
    65504.0
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: Any = None) -> None:
        kind = get_default_dtype() if type is None else np.dtype(type)
        if category(kind) < 2:
            raise TypeError(f"finfo() requires a floating point input type; use iinfo() to handle {kind}")
        info: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
        self.bits = int(info.bits)
        self.dtype = str(info.dtype)
        self.eps, self.max, self.min = (float(value) for value in (info.eps, info.max, info.min))
        self.resolution = 10.0 ** -int(info.nmant * math.log10(2))
        self.smallest_normal = self.tiny = float(info.smallest_normal)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        names = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        shown = ", ".join(f"{name}={getattr(self, name):g}" for name in names)
        return f"finfo({shown}, dtype={self.dtype})"


class iinfo:  # noqa: N801  # PyTorch's name
    """The limits of an integer dtype.

    Attributes:
        bits: how many an element has.
        dtype: the name of the dtype.
        max, min: the largest number, and the smallest.

    Raises:
        TypeError: for other dtypes.

    >>> iinfo(int8)
    iinfo(min=-128, max=127, dtype=int8)
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: Any) -> None:
        kind = np.dtype(type)
        if category(kind) != 1:
            raise TypeError(f"iinfo() requires an integer input type, got {kind}; finfo() is for floating-point ones")
        info = np.iinfo(kind)
        self.bits, self.dtype, self.max, self.min = int(info.bits), kind.name, int(info.max), int(info.min)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """The smallest dtype that both can be cast to, as PyTorch sees it.

    Raises:
        RuntimeError: for pairs that are not promoted: see `stowgrad.autograd.ops.promotion`.

    >>> promote_types(int32, float16).name
    'float16'
    """
    return promote(np.dtype(type1), np.dtype(type2))


def result_type(tensor1: Any, tensor2: Any) -> np.dtype[Any]:
    """The dtype of what an operation makes of two tensors or numbers.

    Raises:
        TypeError: for anything else.

    >>> result_type(1, 2.0).name
    'float32'
    """
    (rank, x), (other, y) = _ranked(tensor1), _ranked(tensor2)
    if rank == other:
        return promote(x, y)
    return combined(x, y) if rank > other else combined(y, x)


def _ranked(value: Any) -> tuple[int, np.dtype[Any]]:
    if isinstance(value, Variable):
        return (2 if value._array.ndim else 1), value._array.dtype
    if isinstance(value, bool | int | float | complex):
        return 0, number_dtype(value)
    raise TypeError(f"result_type(): expected Tensors or numbers, got {type(value).__name__}")


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a result of one dtype may be written into a tensor of another: not from floats to integers, and so on.

    >>> can_cast(float64, float32), can_cast(float32, int64)
    (True, False)
    """
    return category(np.dtype(from_)) <= category(np.dtype(to))


def is_tensor(obj: Any) -> bool:
    """Whether something is a Tensor."""
    return isinstance(obj, Variable)


def is_floating_point(input: Any) -> bool:
    """Whether a tensor's dtype (or a dtype, for which PyTorch has an attribute) is a floating-point one.

    Raises:
        TypeError: if it is neither.

    >>> is_floating_point(bfloat16)
    True
    """
    return category(dtype_of("is_floating_point", input)) == 2


def to_real(dtype: Any) -> np.dtype[Any]:
    """The dtype of the parts of a complex one; any other itself.

    >>> to_real(complex64).name
    'float32'
    """
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.kind != "c":
        return kind
    return float32 if kind == complex64 else float64


def to_complex(dtype: Any) -> np.dtype[Any]:
    """The complex dtype whose parts are of a dtype (of halves: of float32), a complex one itself.

    Raises:
        RuntimeError: for integers, bools and 8-bit floats.

    >>> to_complex(float64).name
    'complex128'
    """
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.kind == "c":
        return kind
    if category(kind) < 2 or kind in FLOAT8:
        raise RuntimeError(f"to_complex(): there are no complex numbers of {kind}")
    return combined(kind, complex64)
