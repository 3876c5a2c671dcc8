"""Learning rates from step to step."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.optim import lr_scheduler

pytestmark = pytest.mark.filterwarnings("ignore:Detected call")


def optimizer(*rates: float) -> optim.Optimizer:
    return optim.SGD([{"params": nn.Parameter(stowgrad.ones(1)), "lr": rate} for rate in rates])


def rates(scheduler: Any, steps: int) -> list[float]:
    seen = [scheduler.get_last_lr()[0]]
    for _ in range(steps):
        scheduler.step()
        seen.append(scheduler.optimizer.param_groups[0]["lr"])
    return seen


def test_lambda():
    of = optimizer(1.0, 10.0)
    scheduler = lr_scheduler.LambdaLR(of, [lambda step: 1 / (1 + step), lambda step: 0.5])
    assert rates(scheduler, 3) == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4])
    assert scheduler.get_last_lr()[1] == 5
    with pytest.raises(ValueError, match="Expected 2 lr_lambdas"):
        lr_scheduler.LambdaLR(of, [lambda step: 1.0])


def test_linear():
    scheduler = lr_scheduler.LinearLR(optimizer(1.0), start_factor=0.25, end_factor=0.75, total_iters=2)
    assert rates(scheduler, 4) == pytest.approx([0.25, 0.5, 0.75, 0.75, 0.75])
    with pytest.raises(ValueError, match="Starting"):
        lr_scheduler.LinearLR(optimizer(1.0), start_factor=0)
    with pytest.raises(ValueError, match="Ending"):
        lr_scheduler.LinearLR(optimizer(1.0), end_factor=2)


def test_cosine_goes_down_and_up_again():
    scheduler = lr_scheduler.CosineAnnealingLR(optimizer(1.0), T_max=4, eta_min=0.1)
    expected = [0.1 + 0.45 * (1 + math.cos(math.pi * step / 4)) for step in range(13)]
    assert rates(scheduler, 12) == pytest.approx(expected)


def test_schedulers_combine():
    of = optimizer(1.0)
    warmup = lr_scheduler.LinearLR(of, start_factor=0.5, total_iters=2)
    decay = lr_scheduler.CosineAnnealingLR(of, T_max=10)
    for _ in range(2):
        warmup.step()
        decay.step()
    assert of.param_groups[0]["lr"] == pytest.approx((1 + math.cos(math.pi / 5)) / 2)


def test_a_scheduler_resumes_from_json():
    of = optimizer(1.0)
    scheduler = lr_scheduler.CosineAnnealingLR(of, T_max=10)
    rates(scheduler, 3)
    saved = json.loads(json.dumps([scheduler.state_dict(), of.state_dict()]))
    expected = rates(scheduler, 3)
    other = optimizer(1.0)
    twin = lr_scheduler.CosineAnnealingLR(other, T_max=10)
    twin.load_state_dict(saved[0])
    other.load_state_dict(saved[1])
    assert rates(twin, 3) == expected
    assert lr_scheduler.LambdaLR(of, lambda step: 1.0).state_dict()["last_epoch"] == 0


def test_refusals():
    with pytest.raises(TypeError, match="not an Optimizer"):
        lr_scheduler.LinearLR(3)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.LinearLR(optimizer(1.0), last_epoch=3)
