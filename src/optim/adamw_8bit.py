"""AdamW with states of 8 bits (Dettmers et al., 2022, "8-bit Optimizers via Block-wise Quantization")."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.creation import from_numpy
from ..autograd.tensor import Tensor
from ..memory import Device
from .optimizer import Group, Optimizer, Params, check_ranges
from .quantization import dynamic_map
from .state import STEP, Form, leased, new_step, zeros_like

_CODES, _SCALES = np.dtype(np.uint8), np.dtype(np.float32)
_MAPS = ("signed_map", "unsigned_map")


class AdamW8bit(Optimizer):
    """AdamW that keeps a byte for each of the two running means of an element.

    Args:
        params: what is optimized; see `Optimizer`. Real numbers only; computed in float32.
        lr: the learning rate.
        betas: how much of the running means of the gradient and of its square is kept at each step.
        eps: added to the denominator.
        weight_decay: how strongly parameters are pulled to zero, apart from the gradient.
        block_size: how many elements share a scale.
        min_8bit_size: parameters with fewer elements keep their state in their own dtype, as in `AdamW`.
        optim_bits: 8, or 32 for `AdamW`'s state: meant for a group, for example that of embeddings, whose gradients are
            rare and of very different sizes.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.

    An element costs ``2 + 8 / block_size`` bytes: 2.03 instead of `AdamW`'s 8 for float32. Each mean is stored as the
    nearest of 256 values, relative to the largest of its block: to 7 % of itself for a tenth of that, 14 % for a
    hundredth, and so on. A mean square is never rounded to 0. The update is computed before the means are rounded.

    >>> import stowgrad
    >>> layer = stowgrad.nn.Linear(256, 256, bias=False)
    >>> optimizer = AdamW8bit(layer.parameters())
    >>> layer(stowgrad.ones(1, 256)).sum().backward()
    >>> optimizer.step()
    >>> state = optimizer.state[layer.weight]
    >>> sum(state[name].nbytes for name in state if name != "step") / layer.weight.numel()
    2.03125
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        block_size: int = 256,
        min_8bit_size: int = 4096,
        optim_bits: int = 8,
        maximize: bool = False,
    ) -> None:
        self._maps: dict[Device, tuple[Tensor, Tensor]] = {}
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "block_size": block_size,
                "min_8bit_size": min_8bit_size,
                "optim_bits": optim_bits,
                "maximize": maximize,
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "eps", "betas", "weight_decay", "min_8bit_size")
        if group["block_size"] < 1:
            raise ValueError(f"Invalid block_size value: {group['block_size']}")
        if group["optim_bits"] not in (8, 32):
            raise ValueError(f"Invalid optim_bits value: {group['optim_bits']}, expected 8 or 32")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        if param.is_complex():
            raise RuntimeError("AdamW8bit does not support complex parameters")
        if group["optim_bits"] == 32 or param.numel() < group["min_8bit_size"]:
            return {STEP: new_step(), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}
        state = {STEP: new_step()}
        blocks = -(-param.numel() // group["block_size"])
        for name in ("exp_avg", "exp_avg_sq"):
            state[name] = leased(tuple(param.shape), _CODES, param.device)
            state[f"{name}_scale"] = leased((blocks,), _SCALES, param.device)
            state[name]._array.fill(0)
            state[f"{name}_scale"]._array.fill(0)
        return state

    def state_form(self, name: str, param: Tensor) -> Form:
        if name.endswith("_scale"):
            return Form(None, _SCALES, param.device)
        return super().state_form(name, param)

    def arrays(self, param: Tensor, state: dict[str, Any]) -> dict[str, Any]:
        arrays = super().arrays(param, state)
        if "exp_avg_scale" in state:
            if param.device not in self._maps:
                self._maps[param.device] = _maps_on(param.device)
            arrays.update(zip(_MAPS, (entries._array for entries in self._maps[param.device]), strict=True))
        return arrays

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        settings = {
            "lr": float(group["lr"]),
            "beta1": group["betas"][0],
            "beta2": group["betas"][1],
            "eps": group["eps"],
            "weight_decay": group["weight_decay"],
            "step": int(state[STEP]) + 1,
            "maximize": group["maximize"],
        }
        if "exp_avg_scale" not in state:
            kernels.adamw_step(param, grad, state["exp_avg"], state["exp_avg_sq"], **settings)
        else:
            kernels.adamw_8bit_step(
                param,
                grad,
                state["exp_avg"],
                state["exp_avg_sq"],
                state["exp_avg_scale"],
                state["exp_avg_sq_scale"],
                *[state[name] for name in _MAPS],
                block_size=group["block_size"],
                **settings,
            )
        state[STEP] += 1


def _maps_on(device: Device) -> tuple[Tensor, Tensor]:
    """The values that codes stand for: the same for all parameters of a device, 2 KiB."""
    made = []
    for signed in (True, False):
        entries = leased((256,), _SCALES, device)
        entries.copy_(from_numpy(dynamic_map(signed)))
        made.append(entries)
    return made[0], made[1]
