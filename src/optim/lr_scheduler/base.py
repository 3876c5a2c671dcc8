"""`LRScheduler`: what schedules have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd.grad_mode import no_grad
from ...autograd.tensor import Tensor
from ..optimizer import Group, Optimizer

_ORDER = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`: call them in the opposite order, or the first"
    " value of the learning rate schedule is skipped"
)
EPOCH_DEPRECATION = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use"
    " `scheduler.step()` to step the scheduler."
)


class LRScheduler:
    """Base class: sets the learning rate of every group at construction and at each `step`.

    Args:
        optimizer: whose groups are changed; each remembers its first rate as ``"initial_lr"``.
        last_epoch: the number of steps done before, -1 for a fresh start.

    Raises:
        TypeError: if ``optimizer`` is no optimizer.
        KeyError: if steps were done before and a group has no ``"initial_lr"``.

    A subclass defines `get_lr`: the rates of all groups for step ``last_epoch``, from those before where it can, so
    that schedulers may be combined. It may define ``_get_closed_form_lr`` too, for ``step(epoch)``.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with"
                    " last_epoch >= 0: load the optimizer's state first, or leave last_epoch out for a fresh start"
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        optimizer.register_step_post_hook(_note_a_step)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> Sequence[float]:
        """The rates of the groups for step ``last_epoch``; ``group["lr"]`` are the ones before."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr()")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next step: call it after ``optimizer.step()``. Better leave ``epoch`` out."""
        if self._step_count == 1 and not getattr(self.optimizer, "_opt_called", False):
            warnings.warn(_ORDER, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        with self._asking():
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                rates = self.get_lr() if closed is None else closed()
        self._set(rates)

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = self._present()

    def _present(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _warn_outside_of_a_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one for each group."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """All that the scheduler needs to go on, except the optimizer and functions."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` gave; the optimizer's rates come with its own state."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "optimizer"})


def _note_a_step(optimizer: Any, *called: Any) -> None:
    optimizer._opt_called = True


def checked_optimizer(optimizer: Any) -> Optimizer:
    """The optimizer itself.

    Raises:
        TypeError: if it is none.
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def set_rate(group: Group, rate: float) -> None:
    """Set a group's learning rate; one that is a tensor stays that tensor."""
    if isinstance(group["lr"], Tensor):
        with no_grad():
            group["lr"].fill_(float(rate))
    else:
        group["lr"] = rate


def for_each_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A setting for each group, from one for all or a list.

    Raises:
        ValueError: for a list of another length.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups"
            f" has {count}."
        )
    return list(value)
