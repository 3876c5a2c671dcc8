"""Variants of Adam: NAdam, with Nesterov's momentum (Dozat, 2016), and RAdam, rectified (Liu et al., 2020)."""

from __future__ import annotations

from typing import Any

from ..autograd.tensor import Tensor
from .optimizer import Group, Optimizer, Params, check_ranges, hints
from .state import STEP, new_step, zeros_like

_PRODUCT = "mu_product"


class NAdam(Optimizer):
    """Adam with Nesterov's momentum, like ``torch.optim.NAdam``.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        betas: how much of the running means of the gradient and of its square is kept at each step.
        eps: added to the denominator.
        weight_decay: how strongly parameters are pulled to zero.
        momentum_decay: how fast the momentum gets to its full size.
        decoupled_weight_decay: whether the decay acts on the parameters, not the gradient.
        foreach, capturable, differentiable: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.
    """

    scalars = frozenset({STEP, _PRODUCT})

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                **hints(differentiable, foreach=foreach, capturable=capturable),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "eps", "betas", "weight_decay", "momentum_decay")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {
            STEP: new_step(),
            _PRODUCT: new_step(1.0),
            "exp_avg": zeros_like(param),
            "exp_avg_sq": zeros_like(param),
        }

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        lr, decay, step = float(group["lr"]), group["momentum_decay"], int(state[STEP]) + 1
        now, coming = (beta1 * (1.0 - 0.5 * 0.96 ** (number * decay)) for number in (step, step + 1))
        product = state[_PRODUCT] * now
        kernels.nadam_step(
            param,
            grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            lr=lr,
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            step=step,
            grad_size=lr * (1.0 - now) / (1.0 - float(product)),
            mean_size=lr * coming / (1.0 - float(product) * coming),
            maximize=group["maximize"],
            decoupled=group["decoupled_weight_decay"],
        )
        state[STEP] += 1
        state[_PRODUCT][...] = product


class RAdam(Optimizer):
    """Adam that leaves the mean square out as long as it is too uncertain, like ``torch.optim.RAdam``.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        betas: how much of the running means of the gradient and of its square is kept at each step.
        eps: added to the denominator.
        weight_decay: how strongly parameters are pulled to zero.
        decoupled_weight_decay: whether the decay acts on the parameters, not the gradient.
        foreach, capturable, differentiable: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
                **hints(differentiable, foreach=foreach, capturable=capturable),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "eps", "betas", "weight_decay")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {STEP: new_step(), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        kernels.radam_step(
            param,
            grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            lr=float(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            step=int(state[STEP]) + 1,
            maximize=group["maximize"],
            decoupled=group["decoupled_weight_decay"],
        )
        state[STEP] += 1
