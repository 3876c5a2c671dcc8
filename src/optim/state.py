"""An optimizer's state in PyTorch's ``state_dict`` form, and tensors for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..autograd.tensor import Tensor
from ..memory import CPU, Device, pool

# The number of updates: float32 on the CPU, as in PyTorch, whatever the parameter is.
STEP = "step"
_STEP_DTYPE = np.dtype(np.float32)

# The setting of a group whose 16-bit parameters are optimized through copies, and the name of a copy in the state.
MASTER_WEIGHTS = "master_weights"
MASTER = "master_weight"
_WIDE = np.dtype(np.float32)


def leased(shape: tuple[int, ...], dtype: np.dtype[Any], device: Device) -> Tensor:
    """An uninitialised tensor of the category ``optimizer_state``."""
    tensor: Tensor = Tensor._wrap(*pool(device).lease(shape, dtype, "optimizer_state"))
    return tensor


def buffer_like(param: Tensor) -> Tensor:
    """An uninitialised tensor of a parameter's shape, dtype and device for its state."""
    return leased(tuple(param.shape), param.dtype, param.device)


def zeros_like(param: Tensor) -> Tensor:
    """Zeros of a parameter's shape, dtype and device for its state."""
    tensor = buffer_like(param)
    tensor._array.fill(0)
    return tensor


def full_like(param: Tensor, value: complex) -> Tensor:
    """A tensor of one value of a parameter's shape, dtype and device for its state."""
    tensor = buffer_like(param)
    tensor._array.fill(value)
    return tensor


def new_step(value: float = 0.0) -> Tensor:
    """The counter of a parameter that was never updated, or another number of its state."""
    tensor = leased((), _STEP_DTYPE, CPU)
    tensor._array.fill(value)
    return tensor


def needs_master(param: Tensor, group: Mapping[str, Any]) -> bool:
    """Whether a parameter is optimized through a float32 copy."""
    return bool(group.get(MASTER_WEIGHTS)) and param.is_floating_point() and param.dtype.itemsize == 2


def new_master(param: Tensor) -> Tensor:
    """A float32 copy of a parameter."""
    tensor = leased(tuple(param.shape), _WIDE, param.device)
    tensor.copy_(param.detach())
    return tensor


def real_values(tensor: Tensor) -> Any:
    """A tensor's array; complex numbers as pairs of real ones, along one more axis."""
    array = tensor._array
    return array if array.dtype.kind != "c" else array[..., None].view(array.real.dtype)


@dataclass(frozen=True)
class Form:
    """What a tensor of a state looks like; None for a shape that may be any, or for the dtype that it has."""

    shape: tuple[int, ...] | None
    dtype: np.dtype[Any] | None
    device: Device

    def of_master(self, name: str, param: Tensor) -> Form:
        """The same for a parameter that has a float32 copy."""
        if name == MASTER:
            return Form(tuple(param.shape), _WIDE, param.device)
        return self if self.dtype != param.dtype else replace(self, dtype=_WIDE)

    @classmethod
    def number(cls) -> Form:
        """One number for the whole parameter."""
        return cls((), _STEP_DTYPE, CPU)


# -- PyTorch's form ----------------------------------------------------------------------------------------------------


def packed_state(state: Mapping[Tensor, dict[str, Any]], numbers: Mapping[Tensor, int]) -> dict[int, dict[str, Any]]:
    """States by parameter number."""
    return {numbers[param]: dict(values) for param, values in state.items()}


def packed_groups(groups: Iterable[dict[str, Any]], numbers: Mapping[Tensor, int]) -> list[dict[str, Any]]:
    """Groups with parameter numbers in place of parameters."""
    return [
        {
            **{name: value for name, value in group.items() if name != "params"},
            "params": [numbers[p] for p in group["params"]],
        }
        for group in groups
    ]


def unpacked_groups(
    saved: list[dict[str, Any]], own: list[dict[str, Any]], defaults: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """An optimizer's groups with the settings of saved ones.

    Raises:
        ValueError: if number or sizes of the groups differ.
    """
    if len(saved) != len(own):
        raise ValueError(
            f"loaded state dict has a different number of parameter groups: {len(saved)}, the optimizer has {len(own)}"
        )
    groups = []
    for number, (theirs, ours) in enumerate(zip(saved, own, strict=True)):
        if len(theirs["params"]) != len(ours["params"]):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group:"
                f" group {number} has {len(theirs['params'])} parameters, the optimizer's has {len(ours['params'])}"
            )
        # A tuple of betas comes back from JSON as a list.
        settings = {
            name: tuple(value) if isinstance(value, list) and isinstance(defaults.get(name), tuple) else value
            for name, value in theirs.items()
        }
        if "param_names" in ours:
            settings.setdefault("param_names", ours["param_names"])
        groups.append({**defaults, **settings, "params": ours["params"]})
    return groups


def unpacked_state(
    saved: Mapping[int, Mapping[str, Any]],
    numbered: Mapping[int, Tensor],
    copy: bool,
    form: Callable[[str, Tensor], Form],
) -> dict[Tensor, dict[str, Any]]:
    """States by parameter, as the parameters need them.

    Args:
        saved: the states by parameter number.
        numbered: the parameters by number.
        copy: whether tensors are copied even where they could be kept.
        form: what the tensor of a name looks like for a parameter. Integers keep their dtype.

    Raises:
        ValueError: if there is a state for no parameter, or one of another shape; all of them are named.
    """
    complaints = []
    for number, values in saved.items():
        param = numbered.get(number)
        if param is None:
            complaints.append(f"state for parameter {number}, which the optimizer does not have")
            continue
        for name, value in values.items():
            if isinstance(value, Tensor):
                shape = form(name, param).shape
                if shape is not None and tuple(value.shape) != shape and not (shape == () and value.numel() == 1):
                    complaints.append(
                        f"{name} of parameter {number}: shape {list(value.shape)}, expected {list(shape)}"
                    )
    if complaints:
        raise ValueError("loaded state dict doesn't fit the optimizer's parameters:\n\t" + "\n\t".join(complaints))
    with no_grad():
        return {
            numbered[number]: {
                name: _fitted(value, form(name, numbered[number]), copy) for name, value in values.items()
            }
            for number, values in saved.items()
        }


def _fitted(value: Any, form: Form, copy: bool) -> Any:
    if form == Form.number() and isinstance(value, int | float):
        return new_step(value)
    if isinstance(value, list):
        return [_fitted(part, form, copy) for part in value]
    if not isinstance(value, Tensor):
        return value
    keeps_dtype = form.dtype is None or not (value.is_floating_point() or value.is_complex())
    dtype = value.dtype if keeps_dtype and form != Form.number() else form.dtype
    shape = tuple(value.shape) if form.shape is None else form.shape
    if not copy and value.dtype == dtype and value.device == form.device and value._array.flags.c_contiguous:
        value._storage.pool.relabel(value._storage, "optimizer_state")
        return value
    fitted = leased(shape, dtype or value.dtype, form.device)
    fitted.copy_(value.reshape(shape))
    return fitted
