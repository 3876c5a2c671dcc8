"""Schedules made of others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, set_rate
from .plateau import ReduceLROnPlateau


class _Combined(LRScheduler):
    _schedulers: Sequence[LRScheduler]

    def _check(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
        name = type(self).__name__
        for number, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {number} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be"
                    f" specified when calling `step`, but got one at index {number} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler"
                    f" {type(scheduler).__name__} at index {number} with another one"
                )

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        state = dict(state_dict)
        saved = state.pop("_schedulers")
        super().load_state_dict(state)
        for scheduler, part in zip(self._schedulers, saved, strict=True):
            scheduler.load_state_dict(part)


class ChainedScheduler(_Combined):
    """Several schedules at once: each changes what the ones before it have set.

    Args:
        schedulers: at least one, all of one optimizer.
        optimizer: theirs.

    Raises:
        ValueError: for none, for several optimizers, and for `ReduceLROnPlateau`.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler."
            )
        owner = optimizer or schedulers[0].optimizer
        self._check(schedulers, owner)
        self._schedulers = schedulers
        self.optimizer = owner
        self._last_lr = self._present()

    def step(self) -> None:  # type: ignore[override]  # as in PyTorch
        """Go to the next step of each."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._present()


class SequentialLR(_Combined):
    """One schedule after the other.

    Args:
        optimizer: whose rates are set.
        schedulers: the schedules, in order.
        milestones: the step at which each but the first begins.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: for numbers that do not fit, for several optimizers, and for `ReduceLROnPlateau`.
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of"
                f" milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be"
                f" equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # All schedules took their first step when they were made; only the first of them should have.
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        _undo(schedulers)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]  # as in PyTorch
        """Go to the next step of the schedule whose turn it is."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(schedulers: Sequence[LRScheduler]) -> None:
    for scheduler in schedulers:
        if isinstance(scheduler, _Combined):
            _undo(scheduler._schedulers)
        else:
            scheduler.last_epoch -= 1
