"""Averages of a model's weights along training, like ``torch.optim.swa_utils``.

An average costs as much memory as the model; an update of it needs a few tiles besides.

>>> import stowgrad
>>> model = stowgrad.nn.Linear(2, 1)
>>> average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
>>> average.update_parameters(model)  # after each optimizer.step(); the first time it copies
>>> int(average.n_averaged)
1
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from ..autograd.creation import tensor
from ..autograd.grad_mode import no_grad
from ..autograd.tensor import Tensor
from ..memory import DeviceLike
from ..nn import Module
from ..nn.modules.batchnorm import _BatchNorm
from .lr_scheduler import LRScheduler
from .lr_scheduler.base import for_each_group
from .optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

AvgFn: TypeAlias = Callable[[Any, Any, Any], Any]
MultiAvgFn: TypeAlias = Callable[[Sequence[Any], Sequence[Any], Any], None]


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAvgFn:
    """Exponential moving averages, in place: ``decay`` of the average is kept at each update.

    Raises:
        ValueError: for a decay outside 0 to 1.
    """
    _check_decay(decay)

    def update(averages: Sequence[Any], values: Sequence[Any], count: Any) -> None:
        with no_grad():
            for average, value in zip(averages, values, strict=True):
                _blend(average, value, 1 - decay)

    return update


def get_swa_multi_avg_fn() -> MultiAvgFn:
    """Equally weighted averages, in place."""

    def update(averages: Sequence[Any], values: Sequence[Any], count: Any) -> None:
        with no_grad():
            for average, value in zip(averages, values, strict=True):
                _blend(average, value, 1 / (int(count) + 1))

    return update


def get_ema_avg_fn(decay: float = 0.999) -> AvgFn:
    """The next exponential moving average of one tensor.

    Raises:
        ValueError: for a decay outside 0 to 1.
    """
    _check_decay(decay)

    def update(average: Any, value: Any, count: Any) -> Any:
        with no_grad():
            return decay * average + (1 - decay) * value

    return update


def get_swa_avg_fn() -> AvgFn:
    """The next equally weighted average of one tensor."""

    def update(average: Any, value: Any, count: Any) -> Any:
        with no_grad():
            return average + (value - average) / (int(count) + 1)

    return update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _blend(average: Any, value: Any, weight: float) -> None:
    if average.is_floating_point() or average.is_complex():
        average.lerp_(value, weight)
    else:
        average.copy_(average * (1 - weight) + value * weight)


class AveragedModel(Module):
    """A copy of a model whose weights are averages of the model's, updated by `update_parameters`.

    Args:
        model: what is averaged; copied.
        device: where the copy is kept, the model's own by default.
        avg_fn: from an average, a value and the number of values so far, the next average; equal weights by default.
        multi_avg_fn: the same for lists of tensors, in place: needs no further memory.
        use_buffers: whether buffers are averaged too, not copied.

    Raises:
        AssertionError: for both kinds of functions.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: DeviceLike | None = None,
        avg_fn: AvgFn | None = None,
        multi_avg_fn: MultiAvgFn | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=np.dtype(np.int64), device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model returns."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Let the present weights of a model into the averages; the first time, copy them."""
        averages, values = (
            [p.detach() for p in (chain(m.parameters(), m.buffers()) if self.use_buffers else m.parameters())]
            for m in (self.module, model)
        )
        count = int(self.n_averaged)
        with no_grad():
            values = [value.to(average.device) for average, value in zip(averages, values, strict=True)]
            if count == 0:
                for average, value in zip(averages, values, strict=True):
                    average.copy_(value)
            elif self.avg_fn is not None:
                for average, value in zip(averages, values, strict=True):
                    average.copy_(self.avg_fn(average, value, self.n_averaged))
            elif averages:
                for group in _alike(averages, values):
                    (self.multi_avg_fn or get_swa_multi_avg_fn())(*group, self.n_averaged)
            if not self.use_buffers:
                for ours, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                    ours.detach().copy_(theirs.detach().to(ours.device))
            self.n_averaged += 1


def _alike(averages: Sequence[Any], values: Sequence[Any]) -> Iterable[tuple[list[Any], list[Any]]]:
    """Pairs of lists of tensors of one dtype and device."""
    groups: dict[Any, tuple[list[Any], list[Any]]] = {}
    for average, value in zip(averages, values, strict=True):
        found = groups.setdefault((average.dtype, average.device), ([], []))
        found[0].append(average)
        found[1].append(value)
    return groups.values()


def update_bn(loader: Iterable[Any], model: Module, device: DeviceLike | None = None) -> None:
    """Compute the running statistics of a model's batch normalizations anew.

    Args:
        loader: batches; of a tuple or list the first element is the input.
        model: goes through all of them once, in training mode.
        device: where inputs are put first.
    """
    layers = [layer for layer in model.modules() if isinstance(layer, _BatchNorm)]
    if not layers:
        return
    momenta = [layer.momentum for layer in layers]
    was_training = model.training
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # a mean over all batches
    model.train()
    try:
        with no_grad():
            for batch in loader:
                value = batch[0] if isinstance(batch, list | tuple) else batch
                model(value if device is None else value.to(device))
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """From each group's rate to ``swa_lr`` in ``anneal_epochs`` steps, then constant.

    Args:
        optimizer: whose rates are set.
        swa_lr: the last rate, one for all groups or one each.
        anneal_epochs: the steps until then.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: for an unknown strategy or a negative number of steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(for_each_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def get_lr(self) -> list[float]:
        self._warn_outside_of_a_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, self._present(), strict=True):
            first = group["swa_lr"] if before == 1 else (rate - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + first * (1 - now))
        return rates

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().load_state_dict({name: value for name, value in state_dict.items() if name != "anneal_func"})
