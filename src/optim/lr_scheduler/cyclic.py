"""Schedules that go up and down, the momentum the other way round (Smith, 2017; Smith and Topin, 2019)."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from typing import Any

from ..optimizer import Group, Optimizer
from .base import LRScheduler, checked_optimizer, for_each_group, set_rate


class _WithMomentum(LRScheduler):
    """Sets the momentum of each group too: ``"momentum"``, or the first of the betas."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momentum(self, base: Any, highest: Any, last_epoch: int) -> tuple[list[float], list[float]]:
        optimizer = self.optimizer
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        bases = for_each_group("base_momentum", optimizer, base)
        tops = for_each_group("max_momentum", optimizer, highest)
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, bases, tops, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return bases, tops

    def _set_momentum(self, group: Group, momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class OneCycleLR(_WithMomentum):
    """One cycle: up to ``max_lr``, and down to far less than it began with.

    Args:
        optimizer: whose rates are set.
        max_lr: the highest rate, one for all groups or one each.
        total_steps: the steps of the cycle; or ``epochs`` times ``steps_per_epoch``.
        epochs: see ``total_steps``.
        steps_per_epoch: see ``total_steps``.
        pct_start: the part of the steps that go up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether the momentum goes down and up meanwhile.
        base_momentum: the lowest momentum.
        max_momentum: the highest.
        div_factor: ``max_lr`` over the first rate.
        final_div_factor: the first rate over the last.
        three_phase: whether it goes down as long as up first, and then to the end.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: for settings that are out of range, and a step beyond the last one.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        highest = for_each_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)
        return (end - start) * part + start

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        start, phase = 0.0, self._schedule_phases[0]
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        part = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*ends, part))
        return rates


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    if total_steps is not None:
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    if epochs is None or steps_per_epoch is None:
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch


def _phases(total: int, pct_start: float, three: bool) -> list[dict[str, Any]]:
    def phase(end: float, rates: str, momenta: str) -> dict[str, Any]:
        (start_lr, end_lr), (start_momentum, end_momentum) = rates.split(), momenta.split()
        return {
            "end_step": end,
            "start_lr": start_lr,
            "end_lr": end_lr,
            "start_momentum": start_momentum,
            "end_momentum": end_momentum,
        }

    up = phase(float(pct_start * total) - 1, "initial_lr max_lr", "max_momentum base_momentum")
    if not three:
        return [up, phase(total - 1, "max_lr min_lr", "base_momentum max_momentum")]
    down = phase(float(2 * pct_start * total) - 2, "max_lr initial_lr", "base_momentum max_momentum")
    return [up, down, phase(total - 1, "initial_lr min_lr", "max_momentum max_momentum")]


class CyclicLR(_WithMomentum):
    """Up and down between two rates, again and again.

    Args:
        optimizer: whose rates are set.
        base_lr: the lowest rate, one for all groups or one each.
        max_lr: the highest rate.
        step_size_up: steps up.
        step_size_down: steps down, as many as up by default.
        mode: ``"triangular"``, ``"triangular2"`` (half as high each time) or ``"exp_range"`` (times ``gamma`` each
            step).
        gamma: see ``mode``.
        scale_fn: a function for the height, in place of a mode.
        scale_mode: whether the function gets the number of the ``"cycle"`` or of the ``"iterations"``.
        cycle_momentum: whether the momentum goes down and up meanwhile.
        base_momentum: the lowest momentum.
        max_momentum: the highest.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: for an unknown mode, and an optimizer without a momentum to cycle.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        lowest = for_each_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lowest, strict=True):
                set_rate(group, rate)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._begin_momentum(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def scale_fn(self, x: float) -> float:
        """How high the cycle, or the iteration, ``x`` is."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            ends = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ends:
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        function = state["_scale_fn_custom"]
        if function is not None:
            state["_scale_fn_custom"] = None if isinstance(function, types.FunctionType) else dict(vars(function))
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state = dict(state_dict)
        attributes = state.pop("_scale_fn_custom", None)
        super().load_state_dict(state)
        if attributes is not None:
            vars(self._scale_fn_custom).update(attributes)
