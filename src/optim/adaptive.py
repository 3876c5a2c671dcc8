"""Adagrad (Duchi et al., 2011), Adadelta (Zeiler, 2012), RMSprop (Hinton, 2012) and Adamax (Kingma and Ba, 2015)."""

from __future__ import annotations

from typing import Any

from ..autograd.tensor import Tensor
from .optimizer import Group, Optimizer, Params, check_ranges, hints
from .state import STEP, full_like, new_step, zeros_like


class Adagrad(Optimizer):
    """Steps over the root of the sum of all squares so far, like ``torch.optim.Adagrad``.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        lr_decay: how fast it falls: it is over ``1 + steps * lr_decay``.
        weight_decay: how strongly parameters are pulled to zero, added to the gradient.
        initial_accumulator_value: where the sum of squares begins.
        eps: added to the denominator.
        foreach, differentiable, fused: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.

    Keeps one value for each element, from the moment that a parameter is added.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "maximize": maximize,
                **hints(differentiable, foreach=foreach, fused=fused),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")

    def add_param_group(self, param_group: Group) -> None:
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        self._prepare([(param, param, group) for param in group["params"]])

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        value = group["initial_accumulator_value"]
        return {STEP: new_step(), "sum": full_like(param, complex(value, value) if param.is_complex() else value)}

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        kernels.adagrad_step(
            param,
            grad,
            state["sum"],
            lr=float(group["lr"]) / (1 + float(state[STEP]) * group["lr_decay"]),
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
        state[STEP] += 1


class Adadelta(Optimizer):
    """Steps whose size follows that of the last ones, like ``torch.optim.Adadelta``.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        rho: how much of the running means of the squares of gradients and of steps is kept.
        eps: added to both means under the roots.
        weight_decay: how strongly parameters are pulled to zero, added to the gradient.
        foreach, capturable, differentiable: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                **hints(differentiable, foreach=foreach, capturable=capturable),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "eps", "weight_decay")
        if not 0.0 <= group["rho"] <= 1.0:
            raise ValueError(f"Invalid rho value: {group['rho']}")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {STEP: new_step(), "square_avg": zeros_like(param), "acc_delta": zeros_like(param)}

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        kernels.adadelta_step(
            param,
            grad,
            state["square_avg"],
            state["acc_delta"],
            lr=float(group["lr"]),
            rho=group["rho"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            maximize=group["maximize"],
        )
        state[STEP] += 1


class RMSprop(Optimizer):
    """Steps over the root of the running mean of the squares, like ``torch.optim.RMSprop``.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        alpha: how much of the running mean is kept.
        eps: added to the denominator.
        weight_decay: how strongly parameters are pulled to zero, added to the gradient.
        momentum: how much of the last update is kept: one more value for each element.
        centered: whether the variance takes the place of the mean square: one more value for each element.
        capturable, foreach, differentiable: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "maximize": maximize,
                **hints(differentiable, foreach=foreach, capturable=capturable),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "eps", "momentum", "weight_decay", "alpha")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        state = {STEP: new_step(), "square_avg": zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = zeros_like(param)
        return state

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        kernels.rmsprop_step(
            param,
            grad,
            state["square_avg"],
            state["momentum_buffer"] if group["momentum"] > 0 else None,
            state["grad_avg"] if group["centered"] else None,
            lr=float(group["lr"]),
            alpha=group["alpha"],
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            maximize=group["maximize"],
        )
        state[STEP] += 1


class Adamax(Optimizer):
    """Adam with the largest gradient, slowly forgotten, in place of the mean square, like ``torch.optim.Adamax``.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        betas: how much of the running mean and of the largest gradient is kept at each step.
        eps: added to the size of each gradient.
        weight_decay: how strongly parameters are pulled to zero, added to the gradient.
        foreach, differentiable, capturable: see `Optimizer`.
        maximize: whether the objective is maximized.

    Raises:
        ValueError: for a setting that is out of range.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                **hints(differentiable, foreach=foreach, capturable=capturable),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "eps", "betas", "weight_decay")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        return {STEP: new_step(), "exp_avg": zeros_like(param), "exp_inf": zeros_like(param)}

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        kernels.adamax_step(
            param,
            grad,
            state["exp_avg"],
            state["exp_inf"],
            lr=float(group["lr"]),
            beta1=beta1,
            beta2=beta2,
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            step=int(state[STEP]) + 1,
            maximize=group["maximize"],
        )
        state[STEP] += 1
