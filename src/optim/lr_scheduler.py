"""Learning rates that change from step to step, like ``torch.optim.lr_scheduler``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .optimizer import Group, Optimizer


class LRScheduler:
    """Base class: sets the learning rate of every group at construction and at each `step`.

    Args:
        optimizer: whose groups are changed; each remembers its first rate as ``"initial_lr"``.
        last_epoch: the number of steps done before, -1 for a fresh start.

    Raises:
        TypeError: if ``optimizer`` is no optimizer.
        KeyError: if steps were done before and a group has no ``"initial_lr"``.

    A subclass defines `rate`.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError("param 'initial_lr' is not specified in a parameter group when resuming a scheduler")
        self.optimizer = optimizer
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self.step()

    def rate(self, index: int, group: Group) -> float:
        """The rate of a group for step ``last_epoch``; ``group["lr"]`` is the one before."""
        raise NotImplementedError(f"{type(self).__name__} does not define rate()")

    def step(self) -> None:
        """Go to the next step: call it after ``optimizer.step()``."""
        self.last_epoch += 1
        for index, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self.rate(index, group)
        self._last_lr = [float(group["lr"]) for group in self.optimizer.param_groups]

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one for each group."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """All that the scheduler needs to go on, except the optimizer and functions."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; the optimizer's rates come with its own state."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "optimizer"})


class LambdaLR(LRScheduler):
    """The initial rate times ``lr_lambda(step)``.

    Args:
        optimizer: whose rates are set.
        lr_lambda: a function of the step number, or one for each group. It is not part of the scheduler's state.
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

    def rate(self, index: int, group: Group) -> float:
        return self.base_lrs[index] * self.lr_lambdas[index](self.last_epoch)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        del state["lr_lambdas"]
        return state


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
            raise ValueError(f"Starting multiplicative factor expected to be in (0, 1], got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"Ending multiplicative factor expected to be in [0, 1], got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, step: int) -> float:
        done = min(step, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done

    def rate(self, index: int, group: Group) -> float:
        if self.last_epoch == 0:
            return float(group["lr"]) * self.start_factor
        if self.last_epoch > self.total_iters:
            return float(group["lr"])
        # Relative to the rate before, so that schedulers can be combined.
        return float(group["lr"]) * (self._factor(self.last_epoch) / self._factor(self.last_epoch - 1))


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the initial rate down to ``eta_min`` in ``T_max`` steps (Loshchilov and Hutter, 2017).

    Args:
        optimizer: whose rates are set.
        T_max: steps down to ``eta_min``; after that the rate goes up again.
        eta_min: the lowest rate.
        last_epoch: see `LRScheduler`.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def _height(self, step: int) -> float:
        return 1 + math.cos(math.pi * step / self.T_max)

    def rate(self, index: int, group: Group) -> float:
        rate = float(group["lr"])
        if self.last_epoch == 0:
            return rate
        if (self.last_epoch - 1) % (2 * self.T_max) == self.T_max:  # the rate before was the lowest
            return self.eta_min + (self.base_lrs[index] - self.eta_min) * self._height(self.last_epoch) / 2
        # Relative to the rate before, so that schedulers can be combined.
        return self.eta_min + (rate - self.eta_min) * self._height(self.last_epoch) / self._height(self.last_epoch - 1)
