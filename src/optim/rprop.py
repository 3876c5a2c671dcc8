"""Rprop (Riedmiller and Braun, 1993), which looks at signs alone, and averaged gradient descent (Polyak, 1992)."""

from __future__ import annotations

from typing import Any

from ..autograd.tensor import Tensor
from .optimizer import Group, Optimizer, Params, check_ranges, hints
from .state import STEP, full_like, new_step, zeros_like


class Rprop(Optimizer):
    """Resilient propagation, like ``torch.optim.Rprop``: for gradients of the whole data, not of batches.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the first size of each element's steps.
        etas: what it is multiplied by where the gradient's sign changed, and where not.
        step_sizes: the least and the largest.
        capturable, foreach, differentiable: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": tuple(etas),
                "step_sizes": tuple(step_sizes),
                "maximize": maximize,
                **hints(differentiable, foreach=foreach, capturable=capturable),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr")
        minus, plus = group["etas"]
        if not 0.0 < minus < 1.0 < plus:
            raise ValueError(f"Invalid eta values: {minus}, {plus}")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        lr = float(group["lr"])
        size = full_like(param, complex(lr, lr) if param.is_complex() else lr)
        return {STEP: new_step(), "prev": zeros_like(param), "step_size": size}

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        kernels.rprop_step(
            param,
            grad,
            state["prev"],
            state["step_size"],
            eta_minus=group["etas"][0],
            eta_plus=group["etas"][1],
            smallest=group["step_sizes"][0],
            largest=group["step_sizes"][1],
            maximize=group["maximize"],
        )
        state[STEP] += 1


class ASGD(Optimizer):
    """Averaged stochastic gradient descent, like ``torch.optim.ASGD``: the mean is the state ``"ax"``.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        lambd: the decay of parameters and of the learning rate.
        alpha: the power with which the learning rate falls.
        t0: the step at which averaging begins.
        weight_decay: how strongly parameters are pulled to zero, added to the gradient.
        foreach, differentiable, capturable: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.
    """

    scalars = frozenset({STEP, "eta", "mu"})

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "maximize": maximize,
                **hints(differentiable, foreach=foreach, capturable=capturable),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "weight_decay")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {STEP: new_step(), "eta": new_step(float(group["lr"])), "mu": new_step(1.0), "ax": zeros_like(param)}

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        kernels.asgd_step(
            param,
            grad,
            state["ax"],
            eta=float(state["eta"]),
            lambd=group["lambd"],
            mu=float(state["mu"]),
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
        state[STEP] += 1
        step, lr = float(state[STEP]), float(group["lr"])
        state["eta"][...] = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
        state["mu"][...] = 1 / max(1, step - group["t0"])
