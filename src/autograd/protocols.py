"""NumPy's protocols: how tensors take part in NumPy's functions, and how their memory is handed to other libraries.

What becomes of each NumPy function is said in ``stowgrad.interop``, a floor above; it gives its two entrances to
`use_protocols` when it is loaded.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from opcode import opmap
from typing import Any

import numpy as np

from ..memory import as_device, referable_array, storage_for_user
from . import dlpack
from .frames import user_level
from .ops.promotion import is_numeric
from .variable import Variable

__all__ = ["NumpyProtocols", "constant", "use_protocols", "warn_of_element"]

_STORE_SUBSCR = opmap["STORE_SUBSCR"]
_entrances: dict[str, Callable[..., Any]] = {}


def use_protocols(array_ufunc: Callable[..., Any], array_function: Callable[..., Any]) -> None:
    """Set what is called when NumPy meets a tensor among the arguments of a ufunc, or of another function."""
    _entrances.update(array_ufunc=array_ufunc, array_function=array_function)


class NumpyProtocols:
    """What NumPy, and libraries that exchange memory, ask of a tensor."""

    __slots__ = ()
    __array_priority__ = 1000

    _array: Any
    device: Any
    numpy: Any
    requires_grad: Any
    clone: Any
    to: Any

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The NumPy array of this tensor, sharing its memory unless ``dtype`` or ``copy`` asks for a copy.

        Raises:
            RuntimeError: if the tensor requires grad: NumPy would drop the graph.
            TypeError: if it is on another device.
            ValueError: if ``copy`` is False and a copy is needed.
        """
        self._check_plain("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        array: np.ndarray[Any, Any] = self.numpy()
        if dtype is not None and np.dtype(dtype) != array.dtype:
            if copy is False:
                raise ValueError(f"a {array.dtype} tensor cannot become a {np.dtype(dtype)} array without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        """The result of a ufunc, recorded: see ``stowgrad.interop``."""
        return _entrances["array_ufunc"](ufunc, method, inputs, keywords)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """The result of a function of NumPy, recorded: see ``stowgrad.interop``."""
        return _entrances["array_function"](function, types, args, kwargs)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule over this tensor's memory, which stays in use (and counted) until the consumer lets go.

        Args:
            stream: of a CUDA tensor: the consumer's stream, by its address, which will wait for what is under way; 1 or
                None for the default stream, -1 to leave waiting to the caller.
            max_version: of the protocol, that the consumer knows; without it the capsule is of the former kind.
            dl_device: where the memory is to be, by DLPack's numbers.
            copy: True for memory that nobody else has, False for an error where a copy is needed.

        Raises:
            BufferError: if the tensor requires grad, or has no memory that others could read.
            ValueError: if a copy is needed and must not be made.
        """
        self._check_plain("Can't export tensors that require gradient, use tensor.detach()", BufferError)
        return dlpack.exported(self, dlpack.Wishes(stream, max_version, dl_device, copy))

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack's number for the kind of device, and which of them it is.

        Raises:
            BufferError: for the meta device, which has no memory.
        """
        return dlpack.device_of(self)

    @property
    def __cuda_array_interface__(self) -> Any:
        """The memory of a CUDA tensor as Numba, CuPy and others read it; other tensors don't have the attribute.

        Raises:
            RuntimeError: if the tensor requires grad.
        """
        if self.device.type != "cuda":
            raise AttributeError(
                f"Can't get __cuda_array_interface__ on a tensor of the {self.device} device; use .cuda() first"
            )
        self._check_plain(
            "Can't get __cuda_array_interface__ on Variable that requires grad. Use tensor.detach() first."
        )
        return self._array.__cuda_array_interface__

    def astype(self, dtype: Any, copy: bool = True) -> Any:
        """The tensor in another dtype, as NumPy has it: a copy, unless ``copy`` is False and none needed."""
        return self.to(np.dtype(dtype), copy=bool(copy))

    def copy(self) -> Any:
        """A copy, recorded: NumPy's name for `clone`."""
        return self.clone()

    def _check_plain(self, message: str, error: type[Exception] = RuntimeError) -> None:
        if self.requires_grad:
            raise error(message)


def warn_of_element(tensor: Any) -> None:
    """Warn where a tensor with a history becomes a number in order to be an element of an array: ``a[0] = tensor``.

    For the methods of tensors that convert them to numbers; those who call them are looked at.
    """
    if not tensor._requires_grad:
        return
    level = user_level()
    caller = sys._getframe(level - 1)
    if caller.f_code.co_code[caller.f_lasti] == _STORE_SUBSCR:
        warnings.warn(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior: an element of an"
            " array was set to a tensor's value, without its graph. Consider using tensor.detach() first, or np.stack"
            " to make one tensor of several.",
            UserWarning,
            stacklevel=level,
        )


def constant(value: Any) -> Any:
    """An array of NumPy or CuPy as a constant tensor over its memory; anything else as it is."""
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray:
            if isinstance(value, np.ma.MaskedArray):
                raise TypeError(
                    "a masked array can't become a tensor, which has no mask; use value.filled() or value.data"
                )
            value = value.view(np.ndarray)
        if not is_numeric(value.dtype):
            raise TypeError(f"can't convert np.ndarray of type {value.dtype}; expected numbers or bools")
        if not value.dtype.isnative:
            value = value.astype(value.dtype.newbyteorder("="))
        return Variable._tensor_class._wrap(value, storage_for_user(value))
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(value, cupy.ndarray):
        device = as_device(f"cuda:{value.data.device_id}")
        value = referable_array(value)
        return Variable._tensor_class._wrap(value, storage_for_user(value, device))
    return value
