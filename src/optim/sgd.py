"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from ..autograd.tensor import Tensor
from .optimizer import Group, Optimizer, Params, check_ranges, hints
from .state import buffer_like

_BUFFER = "momentum_buffer"
_COMING = "coming_momentum_buffer"  # leased, but the first update, which fills it, has not been done


class SGD(Optimizer):
    """Gradient descent with momentum, like ``torch.optim.SGD``.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        momentum: how much of the last update is kept; without it the optimizer keeps no state.
        dampening: how much of the gradient is left out where there is momentum, from the second step on.
        weight_decay: how strongly parameters are pulled to zero, added to the gradient.
        nesterov: Nesterov's variant; needs a momentum and no dampening.
        maximize: whether the objective is maximized.
        foreach, differentiable, fused: see `Optimizer`.

    Raises:
        ValueError: for a setting that is out of range.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                **hints(differentiable, foreach=foreach, fused=fused),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "momentum", "weight_decay")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {_COMING: buffer_like(param)} if group["momentum"] != 0 else {}

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        kernels.sgd_step(
            param,
            grad,
            state.get(_COMING if _BUFFER not in state else _BUFFER) if group["momentum"] != 0 else None,
            lr=float(group["lr"]),
            momentum=group["momentum"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            weight_decay=group["weight_decay"],
            first=_BUFFER not in state,
            maximize=group["maximize"],
        )

    def _update(self, param: Tensor, grad: Tensor, group: Group) -> None:
        super()._update(param, grad, group)
        state = self.state.get(param)
        if state and _COMING in state:
            state[_BUFFER] = state.pop(_COMING)
