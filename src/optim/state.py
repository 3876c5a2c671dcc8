"""An optimizer's state in PyTorch's ``state_dict`` form, and tensors for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..autograd.grad_mode import no_grad
from ..autograd.tensor import Tensor
from ..memory import CPU, Device, pool

# The number of updates: float32 on the CPU, as in PyTorch, whatever the parameter is.
STEP = "step"
_STEP_DTYPE = np.dtype(np.float32)


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


def new_step() -> Tensor:
    """The counter of a parameter that was never updated."""
    tensor = leased((), _STEP_DTYPE, CPU)
    tensor._array.fill(0)
    return tensor


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
        groups.append({**defaults, **settings, "params": ours["params"]})
    return groups


def unpacked_state(
    saved: Mapping[int, Mapping[str, Any]], numbered: Mapping[int, Tensor], copy: bool
) -> dict[Tensor, dict[str, Any]]:
    """States by parameter, as the parameters need them: their shape, device and, for floating values, dtype.

    Raises:
        ValueError: if there is a state for no parameter, or one of another shape; all of them are named.
    """
    complaints = []
    for number, values in saved.items():
        param = numbered.get(number)
        if param is None:
            complaints.append(f"state for parameter {number}, which the optimizer does not have")
            continue
        complaints += [
            f"{name} of parameter {number}: shape {list(value.shape)}, expected {list(param.shape)}"
            for name, value in values.items()
            if isinstance(value, Tensor) and name != STEP and tuple(value.shape) != tuple(param.shape)
        ]
    if complaints:
        raise ValueError("loaded state dict doesn't fit the optimizer's parameters:\n\t" + "\n\t".join(complaints))
    with no_grad():
        return {
            numbered[number]: {name: _fitted(name, value, numbered[number], copy) for name, value in values.items()}
            for number, values in saved.items()
        }


def _fitted(name: str, value: Any, param: Tensor, copy: bool) -> Any:
    if name == STEP and isinstance(value, int | float):
        step = new_step()
        step._array.fill(value)
        return step
    if not isinstance(value, Tensor):
        return value
    if name == STEP:
        dtype, device = _STEP_DTYPE, CPU
    else:
        dtype, device = (param.dtype if value.is_floating_point() else value.dtype), param.device
    if not copy and value.dtype == dtype and value.device == device and value._array.flags.c_contiguous:
        value._storage.pool.relabel(value._storage, "optimizer_state")
        return value
    fitted = leased(tuple(value.shape), dtype, device)
    fitted.copy_(value)
    return fitted
