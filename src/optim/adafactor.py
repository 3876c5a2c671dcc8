"""Adafactor (Shazeer and Stern, 2018): the mean squares of a matrix are kept as means of its rows and columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.tensor import Tensor
from .optimizer import Group, Optimizer, Params, hints
from .state import STEP, Form, leased, new_step, zeros_like


class Adafactor(Optimizer):
    """A state of rows plus columns in place of rows times columns, like ``torch.optim.Adafactor``.

    Args:
        params: what is optimized; see `Optimizer`. Real numbers only.
        lr: the largest relative step.
        beta2_decay: the power with which the weight of new squares falls.
        eps: the least root of a mean square (None for the dtype's precision), and the least size of a parameter that
            steps are relative to.
        d: how large the root of an update's mean square may be.
        weight_decay: how strongly parameters are pulled to zero, apart from the gradient.
        foreach: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.

    A matrix of m rows and n columns has m + n values of state; a vector of n has n.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": tuple(eps),
                "d": d,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": hints(foreach=foreach)["foreach"],
            },
        )

    def check_group(self, group: Group) -> None:
        eps1, eps2 = group["eps"]
        for fine, text in (
            (group["lr"] >= 0.0, f"Learning rate should be >= 0 but is: {group['lr']}"),
            (group["beta2_decay"] <= 0.0, f"beta2_decay should be <= 0 but is: {group['beta2_decay']}"),
            (eps1 is None or eps1 >= 0.0, f"epsilon1 should be >= 0 but is: {eps1}"),
            (eps2 >= 0.0, f"epsilon2 should be >= 0 but is: {eps2}"),
            (group["d"] >= 1.0, f"Clipping threshold d should be >= 1 but is: {group['d']}"),
            (group["weight_decay"] >= 0.0, f"weight_decay should be >= 0 but is: {group['weight_decay']}"),
        ):
            if not fine:
                raise ValueError(text)

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state = {STEP: new_step()}
        if param.dim() < 2:
            return state | {"variance": zeros_like(param)}
        for name in ("row_var", "col_var"):
            form = self.state_form(name, param)
            state[name] = leased(form.shape or (), param.dtype, param.device)
            state[name]._array.fill(0)
        return state

    def state_form(self, name: str, param: Tensor) -> Form:
        shape = tuple(param.shape)
        if name == "row_var":
            return Form((*shape[:-1], 1), param.dtype, param.device)
        if name == "col_var":
            return Form((*shape[:-2], 1, shape[-1]), param.dtype, param.device)
        return super().state_form(name, param)

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        step, lr = float(state[STEP]) + 1, float(group["lr"])
        eps1, eps2 = group["eps"]
        kernels.adafactor_step(
            param,
            grad,
            state.get("row_var"),
            state.get("col_var"),
            state.get("variance"),
            lr=lr,
            weight=step ** group["beta2_decay"],
            rho=min(lr, 1 / step**0.5),
            eps1=_precision(param.dtype) if eps1 is None else eps1,
            eps2=eps2,
            d=group["d"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
        state[STEP] += 1


def _precision(dtype: Any) -> float:
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else 2.0**-7  # bfloat16 is no float to NumPy
