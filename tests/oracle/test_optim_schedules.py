"""Every learning-rate schedule beside PyTorch's: rates, momenta, states and errors."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

PAIR = (stowgrad, torch)
pytestmark = pytest.mark.filterwarnings("ignore:The epoch parameter", "ignore:Detected call")


class Halved:
    """A callable with attributes, which states keep."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, step: int) -> float:
        self.calls += 1
        return 0.5**step


def optimizer(library: Any, momentum: bool = True) -> Any:
    def parameter(value: float) -> Any:
        return library.nn.Parameter(library.tensor([value]))

    if momentum:
        return library.optim.SGD([{"params": [parameter(1.0)]}, {"params": [parameter(2.0)], "lr": 0.5}], 0.3, 0.9)
    return library.optim.AdamW([{"params": [parameter(1.0)]}, {"params": [parameter(2.0)], "lr": 0.5}], lr=0.3)


def sequential(library: Any, of: Any) -> Any:
    schedules = library.optim.lr_scheduler
    parts = [
        schedules.ConstantLR(of, factor=0.1, total_iters=3),
        schedules.ExponentialLR(of, gamma=0.9),
        schedules.StepLR(of, 2),
    ]
    return schedules.SequentialLR(of, parts, milestones=[3, 8])


def nested(library: Any, of: Any) -> Any:
    schedules = library.optim.lr_scheduler
    chained = schedules.ChainedScheduler([schedules.ConstantLR(of, 0.5, 4), schedules.ExponentialLR(of, 0.9)])
    return schedules.SequentialLR(of, [chained, schedules.LinearLR(of, 0.1, total_iters=3)], milestones=[3])


def chained(library: Any, of: Any) -> Any:
    schedules = library.optim.lr_scheduler
    return schedules.ChainedScheduler([schedules.ConstantLR(of, 0.5, 4), schedules.CosineAnnealingLR(of, 6, 0.01)], of)


def named(name: str, **kwargs: Any) -> Any:
    def make(library: Any, of: Any) -> Any:
        return getattr(library.optim.lr_scheduler, name)(of, **kwargs)

    make.__name__ = f"{name}({re.sub(r' at 0x[0-9a-f]+', '', str(kwargs))})"
    return make


SCHEDULES = [
    named("LambdaLR", lr_lambda=lambda step: 0.95**step),
    named("LambdaLR", lr_lambda=[lambda step: 0.95**step, lambda step: 1 / (1 + step)]),
    named("MultiplicativeLR", lr_lambda=lambda step: 0.95),
    named("StepLR", step_size=4),
    named("StepLR", step_size=3, gamma=0.7),
    named("MultiStepLR", milestones=[2, 5, 5, 11], gamma=0.5),
    named("ConstantLR"),
    named("ConstantLR", factor=0.2, total_iters=3),
    named("LinearLR"),
    named("LinearLR", start_factor=1.0, end_factor=0.0, total_iters=6),
    named("ExponentialLR", gamma=0.9),
    named("PolynomialLR"),
    named("PolynomialLR", total_iters=9, power=2.0),
    named("CosineAnnealingLR", T_max=5),
    named("CosineAnnealingLR", T_max=7, eta_min=0.05),
    named("CosineAnnealingWarmRestarts", T_0=4),
    named("CosineAnnealingWarmRestarts", T_0=3, T_mult=2, eta_min=0.01),
    named("OneCycleLR", max_lr=1.0, total_steps=20),
    named("OneCycleLR", max_lr=[1.0, 2.0], epochs=4, steps_per_epoch=6, anneal_strategy="linear", three_phase=True),
    named("OneCycleLR", max_lr=1.0, total_steps=20, cycle_momentum=False, pct_start=0.5, div_factor=3.0),
    named("CyclicLR", base_lr=0.1, max_lr=1.0, step_size_up=4),
    named("CyclicLR", base_lr=[0.1, 0.2], max_lr=1.0, step_size_up=3, step_size_down=5, mode="triangular2"),
    named("CyclicLR", base_lr=0.1, max_lr=1.0, step_size_up=3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    named("CyclicLR", base_lr=0.1, max_lr=1.0, step_size_up=3, scale_fn=lambda x: 1 / x, scale_mode="cycle"),
    sequential,
    nested,
    chained,
]


def settings(of: Any) -> list[Any]:
    return [[float(group["lr"]), group.get("momentum", 0.0), *group.get("betas", ())] for group in of.param_groups]


@pytest.mark.parametrize("momentum", [True, False])
@pytest.mark.parametrize("make", SCHEDULES, ids=lambda make: make.__name__)
def test_rates(make: Any, momentum: bool):
    optimizers = [optimizer(library, momentum) for library in PAIR]
    schedules = [make(library, of) for library, of in zip(PAIR, optimizers, strict=True)]
    assert set(schedules[0].state_dict()) == set(schedules[1].state_dict()) - {"_scale_fn_ref"}
    for number in range(20):
        np.testing.assert_allclose(settings(optimizers[0]), settings(optimizers[1]), rtol=1e-12, atol=1e-15)
        assert schedules[0].get_last_lr() == pytest.approx(schedules[1].get_last_lr(), rel=1e-12)
        if number == 9:  # go on from a saved state
            saved = json.loads(json.dumps([schedules[0].state_dict(), optimizers[0].state_dict()]))
            optimizers[0] = optimizer(stowgrad, momentum)
            schedules[0] = make(stowgrad, optimizers[0])
            schedules[0].load_state_dict(saved[0])
            optimizers[0].load_state_dict(saved[1])
        for one, schedule in zip(optimizers, schedules, strict=True):
            one.step()
            schedule.step()


CLOSED = [make for make in SCHEDULES if make.__name__.split("(")[0] not in ("sequential", "nested", "chained")]


@pytest.mark.parametrize("make", CLOSED, ids=lambda make: make.__name__)
def test_a_given_epoch(make: Any):
    optimizers = [optimizer(library) for library in PAIR]
    schedules = [make(library, of) for library, of in zip(PAIR, optimizers, strict=True)]
    for epoch in (3, 7, 2):
        for one, schedule in zip(optimizers, schedules, strict=True):
            one.step()
            schedule.step(epoch)
        np.testing.assert_allclose(settings(optimizers[0]), settings(optimizers[1]), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"patience": 2, "factor": 0.5},
        {"patience": 1, "mode": "max", "threshold": 0.1, "cooldown": 2},
        {"patience": 0, "threshold_mode": "abs", "threshold": 0.5, "min_lr": 0.01},
        {"patience": 0, "mode": "max", "threshold_mode": "abs", "min_lr": [0.1, 0.2], "eps": 0.05},
    ],
)
def test_plateau(kwargs: dict[str, Any]):
    optimizers = [optimizer(library) for library in PAIR]
    schedules = [
        library.optim.lr_scheduler.ReduceLROnPlateau(of, **kwargs) for library, of in zip(PAIR, optimizers, strict=True)
    ]
    assert set(schedules[0].state_dict()) == set(schedules[1].state_dict())
    for number, figure in enumerate(np.random.default_rng(0).standard_normal(40)):
        for library, schedule in zip(PAIR, schedules, strict=True):
            schedule.step(library.tensor(figure) if number % 2 else float(figure))
        assert settings(optimizers[0]) == settings(optimizers[1])
        assert schedules[0].state_dict() == schedules[1].state_dict()


def test_callable_objects_keep_their_attributes():
    of = optimizer(stowgrad)
    schedule = stowgrad.optim.lr_scheduler.LambdaLR(of, Halved())
    state = schedule.state_dict()
    assert state["lr_lambdas"] == [{"calls": 2}, {"calls": 2}]
    twin = stowgrad.optim.lr_scheduler.LambdaLR(of, [Halved(), Halved()])
    twin.load_state_dict(state)
    assert twin.lr_lambdas[0].calls == 2


NAMES = sorted(set(stowgrad.optim.lr_scheduler.__all__))


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name: str):
    def arguments(library: Any) -> list[tuple[str, Any]]:
        given = inspect.signature(getattr(library.optim.lr_scheduler, name)).parameters.values()
        return [(p.name, p.default) for p in given]

    assert arguments(stowgrad) == arguments(torch)


def test_every_schedule_is_there():
    assert set(torch.optim.lr_scheduler.__all__) - {"_LRScheduler"} <= set(NAMES)


WRONG: list[Any] = [
    ("LambdaLR", {"lr_lambda": [lambda step: 1.0]}),
    ("ConstantLR", {"factor": 2.0}),
    ("LinearLR", {"start_factor": 0.0}),
    ("LinearLR", {"end_factor": 2.0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 0}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "eta_min": "a"}),
    ("OneCycleLR", {"max_lr": 1.0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 0}),
    ("OneCycleLR", {"max_lr": 1.0, "epochs": -1, "steps_per_epoch": 2}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5, "pct_start": 2.0}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 5, "anneal_strategy": "no"}),
    ("OneCycleLR", {"max_lr": [1.0], "total_steps": 5}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 1.0, "mode": "no"}),
    ("CyclicLR", {"base_lr": [0.1], "max_lr": 1.0}),
    ("ReduceLROnPlateau", {"factor": 1.0}),
    ("ReduceLROnPlateau", {"mode": "no"}),
    ("ReduceLROnPlateau", {"threshold_mode": "no"}),
    ("ReduceLROnPlateau", {"min_lr": [0.1]}),
]


@pytest.mark.parametrize(("name", "kwargs"), WRONG)
def test_errors(name: str, kwargs: dict[str, Any]):
    found = []
    for library in PAIR:
        with pytest.raises(ValueError) as caught:
            getattr(library.optim.lr_scheduler, name)(optimizer(library), **kwargs)
        found.append(str(caught.value))
    assert found[0] == found[1]


def test_a_schedule_needs_a_momentum_to_cycle():
    for library in PAIR:
        of = library.optim.Adagrad(optimizer(library).param_groups[0]["params"])
        for name, kwargs in (("CyclicLR", {"base_lr": 0.1}), ("OneCycleLR", {"total_steps": 4})):
            with pytest.raises(ValueError, match="must support momentum or beta1"):
                getattr(library.optim.lr_scheduler, name)(of, max_lr=1.0, **kwargs)


def test_combinations_that_are_refused():
    for library in PAIR:
        schedules = library.optim.lr_scheduler
        one, two = optimizer(library), optimizer(library)
        constant, other = schedules.ConstantLR(one), schedules.ConstantLR(two)
        plateau = schedules.ReduceLROnPlateau(one)
        for make in (
            lambda parts, schedules=schedules: schedules.ChainedScheduler(parts),
            lambda parts, schedules=schedules, one=one: schedules.SequentialLR(one, parts, [1] * (len(parts) - 1)),
        ):
            with pytest.raises(ValueError, match="at least one"):
                make([])
            with pytest.raises(ValueError, match="same optimizer"):
                make([constant, other])
            with pytest.raises(ValueError, match="ReduceLROnPlateau"):
                make([constant, plateau])
        with pytest.raises(ValueError, match="milestone"):
            schedules.SequentialLR(one, [constant], [1])


@pytest.mark.filterwarnings("error")
def test_the_wrong_order_is_noticed():
    for library in PAIR:
        schedule = library.optim.lr_scheduler.ExponentialLR(optimizer(library), 0.9)
        with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step"):
            schedule.step()
        schedule.step()
        with pytest.warns(UserWarning, match="get_last_lr"):
            schedule.get_lr()
