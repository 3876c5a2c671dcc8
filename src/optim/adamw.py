"""Adam (Kingma and Ba, 2015) and AdamW (Loshchilov and Hutter, 2019)."""

from __future__ import annotations

from typing import Any

from ..autograd.tensor import Tensor
from .optimizer import Group, Optimizer, Params, check_ranges, hints
from .state import STEP, new_step, zeros_like


class Adam(Optimizer):
    """Adam; ``weight_decay`` is added to the gradient.

    Args:
        params: what is optimized; see `Optimizer`.
        lr: the learning rate.
        betas: how much of the running means of the gradient and of its square is kept at each step.
        eps: added to the denominator.
        weight_decay: how strongly parameters are pulled to zero.
        amsgrad: whether the largest mean square so far takes the place of the present one (Reddi et al., 2018): a third
            value for each element.
        maximize: whether the objective is maximized.
        foreach, capturable, differentiable, fused: see `Optimizer`.
        decoupled_weight_decay: whether the decay acts on the parameters, not the gradient: AdamW.

    Raises:
        ValueError: for a setting that is out of range.

    Keeps two values for each element of a parameter, in the parameter's dtype. An update needs no other memory than a
    few tiles.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": tuple(betas),
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "decoupled_weight_decay": decoupled_weight_decay,
                **hints(differentiable, foreach=foreach, capturable=capturable, fused=fused),
            },
        )

    def check_group(self, group: Group) -> None:
        check_ranges(group, "lr", "eps", "betas", "weight_decay")

    def initial_state(self, param: Tensor, group: Group) -> dict[str, Any]:
        state = {STEP: new_step(), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(param)
        return state

    def update(self, kernels: Any, param: Any, grad: Any, group: Group, state: dict[str, Any]) -> None:
        beta1, beta2 = group["betas"]
        step = state[STEP]
        kernels.adamw_step(
            param,
            grad,
            state["exp_avg"],
            state["exp_avg_sq"],
            state["max_exp_avg_sq"] if group["amsgrad"] else None,
            lr=float(group["lr"]),
            beta1=float(beta1),
            beta2=float(beta2),
            eps=group["eps"],
            weight_decay=group["weight_decay"],
            step=int(step) + 1,
            maximize=group["maximize"],
            decoupled=group["decoupled_weight_decay"],
        )
        step += 1  # only now: the kernel may have found no room for its scratch


class AdamW(Adam):
    """Adam with decoupled weight decay; arguments and errors as of `Adam`.

    >>> import stowgrad
    >>> model = stowgrad.nn.Linear(2, 1)
    >>> optimizer = AdamW(model.parameters(), lr=0.1)
    >>> model(stowgrad.ones(3, 2)).sum().backward()
    >>> optimizer.step()
    >>> int(optimizer.state[model.weight]["step"].item())
    1
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
