"""Schedules that multiply the rate by something."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler


class LambdaLR(LRScheduler):
    """The initial rate times ``lr_lambda(step)``.

    Args:
        optimizer: whose rates are set.
        lr_lambda: a function of the step number, or one for each group. Functions are not part of the scheduler's
            state; of callable objects the attributes are.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: for a number of functions that is not that of the groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(self.lr_lambdas)}")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["lr_lambdas"] = [
            None if isinstance(factor, types.FunctionType) else dict(vars(factor)) for factor in self.lr_lambdas
        ]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state = dict(state_dict)
        saved = state.pop("lr_lambdas", [])
        super().load_state_dict(state)
        for factor, attributes in zip(self.lr_lambdas, saved, strict=False):
            if attributes is not None:
                vars(factor).update(attributes)


class MultiplicativeLR(LambdaLR):
    """The rate before times ``lr_lambda(step)``; arguments and errors as of `LambdaLR`."""

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        if self._is_initial:
            return self._present()
        return [rate * factor(self.last_epoch) for rate, factor in zip(self._present(), self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Times ``gamma`` every ``step_size`` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        due = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return [rate * self.gamma for rate in self._present()] if due else self._present()

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times ``gamma`` at each of ``milestones``; twice where one is there twice."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        return [rate * self.gamma ** self.milestones[self.last_epoch] for rate in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        passed = sum(count for step, count in self.milestones.items() if step <= self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.milestones = Counter({int(step): count for step, count in self.milestones.items()})  # texts in JSON


class ConstantLR(LRScheduler):
    """``factor`` times the initial rate for ``total_iters`` steps, then the initial rate.

    Raises:
        ValueError: for a factor outside 0 to 1.
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._present()]
        if self.last_epoch != self.total_iters:
            return self._present()
        return [rate * (1.0 / self.factor) for rate in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * (self.factor if self.last_epoch < self.total_iters else 1.0) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From ``start_factor`` to ``end_factor`` times the initial rate, linearly over ``total_iters`` steps.

    Raises:
        ValueError: for factors outside 0 to 1 (a start of 0 too: the rate could never leave it).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, step: int) -> float:
        return (
            self.start_factor + (self.end_factor - self.start_factor) * min(step, self.total_iters) / self.total_iters
        )

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in self._present()]
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        step = self._factor(self.last_epoch) / self._factor(self.last_epoch - 1)
        return [rate * step for rate in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self._factor(self.last_epoch) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times ``gamma`` at every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        return self._present() if self._is_initial else [rate * self.gamma for rate in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """Down to 0 in ``total_iters`` steps, as that power of the steps that are left."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _left(self, step: int) -> float:
        return 1.0 - min(step, self.total_iters) / self.total_iters

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        factor = (self._left(self.last_epoch) / self._left(self.last_epoch - 1)) ** self.power
        return [rate * factor for rate in self._present()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self._left(self.last_epoch) ** self.power for base in self.base_lrs]
