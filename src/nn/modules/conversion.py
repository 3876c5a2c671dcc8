"""`Conversions`: a module's tensors in another dtype, or on another device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from ...autograd.creation import empty_like
from ...autograd.grad_mode import no_grad
from ...autograd.ops.promotion import bfloat16, is_floating
from ...autograd.tensor import Tensor
from ...memory import CPU, Device, DeviceLike, as_device
from ..parameter import relabel
from .state import ModuleState

Self = TypeVar("Self", bound="Conversions")


class Conversions(ModuleState):
    """What `Module` is besides its computation, with ways to convert its tensors."""

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters, buffers and gradients to a device, cast the floating ones to a dtype, or both, in place.

        Called as ``to(device)``, ``to(dtype)``, ``to(device, dtype)``, ``to(tensor)`` or with the keywords ``device``
        and ``dtype``; ``non_blocking`` is taken and changes nothing. The parameters stay the same objects, so an
        optimizer keeps them.

        Raises:
            TypeError: for a dtype that is neither floating point nor complex, or arguments that are none of these.
            MemoryBudgetError: if there is no room; tensors before that one are converted already.
        """
        device, dtype = _parse_to(args, kwargs)

        def convert(tensor: Tensor) -> Tensor:
            converted: Tensor = tensor.to(dtype=dtype if is_floating(tensor.dtype) else None, device=device)
            return converted

        return self._apply(convert)

    def cpu(self: Self) -> Self:
        """Move all parameters, buffers and gradients to the CPU."""
        return self._apply(lambda tensor: tensor.to(device=CPU))

    def cuda(self: Self, device: DeviceLike | int | None = None) -> Self:
        """Move all parameters, buffers and gradients to a CUDA device, the first one by default."""
        target = as_device("cuda" if device is None else f"cuda:{device}" if isinstance(device, int) else device)
        return self._apply(lambda tensor: tensor.to(device=target))

    def type(self: Self, dst_type: Any) -> Self:
        """Cast all parameters and buffers, of whatever dtype, to a dtype."""
        dtype = np.dtype(dst_type)
        return self._apply(lambda tensor: tensor.to(dtype=dtype))

    def float(self: Self) -> Self:
        """Cast all floating parameters and buffers to float32."""
        return self._cast(np.dtype(np.float32))

    def double(self: Self) -> Self:
        """Cast all floating parameters and buffers to float64."""
        return self._cast(np.dtype(np.float64))

    def half(self: Self) -> Self:
        """Cast all floating parameters and buffers to float16."""
        return self._cast(np.dtype(np.float16))

    def bfloat16(self: Self) -> Self:
        """Cast all floating parameters and buffers to bfloat16."""
        return self._cast(bfloat16)

    def to_empty(self: Self, *, device: DeviceLike | None, recurse: bool = True) -> Self:
        """Move parameters and buffers to a device without their values: for those on ``meta``, which have none."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def _cast(self: Self, dtype: np.dtype[Any]) -> Self:
        return self._apply(lambda tensor: tensor.to(dtype=dtype) if tensor.is_floating_point() else tensor)

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        with no_grad():
            for tensor, category in self._tensors(recurse):
                gradient = tensor.grad if tensor.is_leaf else None
                data = tensor.detach()
                converted = fn(data)
                if converted is data:
                    continue
                tensor.grad = None
                tensor.data = converted
                relabel(tensor, category)
                if gradient is not None:
                    tensor.grad = fn(gradient)
        return self

    def _tensors(self, recurse: bool) -> Iterable[tuple[Any, str]]:
        yield from ((parameter, "parameter") for parameter in self.parameters(recurse))
        yield from ((buffer, "buffer") for buffer in self.buffers(recurse))


def _parse_to(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Device | None, np.dtype[Any] | None]:
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    kwargs.pop("non_blocking", None)
    if "tensor" in kwargs:
        args = (kwargs.pop("tensor"), *args)
    if kwargs:
        raise TypeError(f"Module.to() got an unexpected keyword argument {next(iter(kwargs))!r}")
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, Device | str):
            device = value
        elif isinstance(value, np.dtype):
            dtype = value
        elif value is not None and not isinstance(value, bool):
            raise TypeError(f"Module.to(): expected a device, a dtype or a tensor, got {type(value).__name__}")
    if dtype is not None and not is_floating(dtype):
        raise TypeError(f"Module.to() only accepts floating point or complex dtypes, got {dtype}")
    return (None if device is None else as_device(device)), dtype
