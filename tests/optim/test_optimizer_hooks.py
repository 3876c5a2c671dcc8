"""Hooks of optimizers, their learning rates as tensors, and what they do with a state that is not theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim


def optimizer() -> tuple[Any, optim.Optimizer]:
    parameter = nn.Parameter(stowgrad.ones(2))
    parameter.grad = stowgrad.ones(2)
    return parameter, optim.AdamW([parameter], lr=0.1)


def test_hooks_around_a_step():
    _, of = optimizer()
    seen: list[Any] = []
    before = of.register_step_pre_hook(lambda self, args, kwargs: seen.append(("before", self is of, args[1:], kwargs)))
    after = of.register_step_post_hook(lambda self, args, kwargs: seen.append(("after", self is of, args[1:], kwargs)))
    of.step()

    def closure() -> float:
        seen.append("closure")
        return 1.0

    assert of.step(closure) == 1.0
    assert seen == [
        ("before", True, (), {}),
        ("after", True, (), {}),
        ("before", True, (closure,), {}),
        "closure",
        ("after", True, (closure,), {}),
    ]
    before.remove()
    after.remove()
    seen.clear()
    of.step()
    assert seen == []


def test_a_hook_before_a_step_may_change_its_arguments():
    _, of = optimizer()
    of.register_step_pre_hook(lambda self, args, kwargs: ((self, lambda: 7), kwargs))
    assert of.step() == 7
    of.register_step_pre_hook(lambda self, args, kwargs: 3)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        of.step()


def test_steps_of_subclasses_have_hooks_too():
    class Own(optim.Optimizer):
        def step(self, closure: Any = None) -> str:
            return "done"

    of = Own([nn.Parameter(stowgrad.ones(1))], {})
    seen = []
    of.register_step_post_hook(lambda self, args, kwargs: seen.append(1))
    assert of.step() == "done"
    assert seen == [1]


def test_hooks_of_state_dicts():
    _, of = optimizer()
    order: list[str] = []
    of.register_state_dict_pre_hook(lambda self: order.append("second"))
    of.register_state_dict_pre_hook(lambda self: order.append("first"), prepend=True)
    of.register_state_dict_post_hook(lambda self, state: {**state, "more": 1})
    state = of.state_dict()
    assert order == ["first", "second"]
    assert state["more"] == 1
    given: list[Any] = []
    of.register_load_state_dict_pre_hook(lambda self, state: given.append(state.pop("more")))
    of.register_load_state_dict_post_hook(lambda self: given.append("loaded"))
    of.load_state_dict(state)
    assert given == [1, "loaded"]
    assert "more" in state  # the hook had a copy


@pytest.mark.parametrize("kind", [optim.SGD, optim.AdamW, optim.Adagrad, optim.RMSprop, optim.NAdam, optim.Adamax])
def test_a_learning_rate_may_be_a_tensor(kind: Any):
    results = []
    for rate in (0.25, stowgrad.tensor(0.25)):
        parameter = nn.Parameter(stowgrad.ones(3))
        of = kind([parameter], lr=rate)
        schedule = optim.lr_scheduler.ExponentialLR(of, 0.5)
        for _ in range(3):
            parameter.grad = stowgrad.tensor([1.0, -2.0, 0.5])
            of.step()
            schedule.step()
        results.append(parameter.detach().numpy())
        assert float(of.param_groups[0]["lr"]) == 0.25 * 0.5**3
    assert isinstance(of.param_groups[0]["lr"], stowgrad.Tensor)
    np.testing.assert_array_equal(*results)
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        kind([parameter], lr=stowgrad.ones(2))


def test_an_update_that_autograd_sees_is_refused():
    with pytest.raises(NotImplementedError, match="differentiable"):
        optim.SGD([nn.Parameter(stowgrad.ones(1))], differentiable=True)


@pytest.mark.parametrize("kind", [optim.NAdam, optim.Adafactor, optim.ASGD, optim.Adagrad, optim.RMSprop])
def test_half_precision_parameters_and_their_states(kind: Any):
    for dtype in (stowgrad.float16, stowgrad.bfloat16):
        parameter = nn.Parameter(stowgrad.ones(8, 4, dtype=dtype))
        of = kind([parameter], lr=0.1)
        for _ in range(3):
            parameter.grad = stowgrad.ones(8, 4, dtype=dtype)
            of.step()
        values = parameter.detach().float().numpy()
        assert np.isfinite(values).all()
        assert (values < 1).all()
        twin = nn.Parameter(parameter.detach().clone())
        other = kind([twin], lr=0.1)
        other.load_state_dict(of.state_dict())
        for p, o in ((parameter, of), (twin, other)):
            p.grad = stowgrad.ones(8, 4, dtype=dtype)
            o.step()
        np.testing.assert_array_equal(parameter.detach().float().numpy(), twin.detach().float().numpy())


def test_a_small_adafactor_state():
    parameter = nn.Parameter(stowgrad.ones(300, 200))
    parameter.grad = stowgrad.ones(300, 200)
    before = stowgrad.memory.pool("cpu").bytes_by_category()["optimizer_state"]
    of = optim.Adafactor([parameter])
    of.step()
    assert stowgrad.memory.pool("cpu").bytes_by_category()["optimizer_state"] - before == 4 * (300 + 200 + 1)
