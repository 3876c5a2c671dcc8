"""Optimizers against hand-written NumPy, their groups, their state and their memory."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.memory import events, pool

RNG = np.random.default_rng(0)
START = RNG.standard_normal((4, 3))
GRADIENTS = [RNG.standard_normal((4, 3)) for _ in range(4)]


def run(make: Any, steps: int = 4) -> tuple[np.ndarray, optim.Optimizer, nn.Parameter]:
    parameter = nn.Parameter(stowgrad.tensor(START))
    optimizer = make([parameter])
    for gradient in GRADIENTS[:steps]:
        parameter.grad = stowgrad.tensor(gradient)
        assert optimizer.step() is None
        optimizer.zero_grad()
        assert parameter.grad is None
    return parameter.detach().numpy(), optimizer, parameter


def adam(decay: float, decoupled: bool, lr: float = 0.1, amsgrad: bool = False, sign: float = 1.0) -> np.ndarray:
    p, m, v, top = START.copy(), np.zeros_like(START), np.zeros_like(START), np.zeros_like(START)
    for t, gradient in enumerate(GRADIENTS, start=1):
        g = sign * gradient
        if decoupled:
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        top = np.maximum(top, v)
        p = p - lr / (1 - 0.9**t) * m / (np.sqrt(top if amsgrad else v) / np.sqrt(1 - 0.99**t) + 1e-8)
    return p


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adamw_and_adam(amsgrad: bool, maximize: bool):
    for kind, decoupled in ((optim.AdamW, True), (optim.Adam, False)):
        values, _, _ = run(
            lambda params, kind=kind: kind(
                params, lr=0.1, betas=(0.9, 0.99), weight_decay=0.3, amsgrad=amsgrad, maximize=maximize
            )
        )
        expected = adam(0.3, decoupled, amsgrad=amsgrad, sign=-1.0 if maximize else 1.0)
        np.testing.assert_allclose(values, expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("momentum", "dampening", "nesterov"), [(0.0, 0.0, False), (0.9, 0.0, False), (0.9, 0.4, False), (0.9, 0.0, True)]
)
@pytest.mark.parametrize("maximize", [False, True])
def test_sgd(momentum: float, dampening: float, nesterov: bool, maximize: bool):
    values, _, _ = run(lambda params: optim.SGD(params, 0.1, momentum, dampening, 0.2, nesterov, maximize=maximize))
    p, buffer = START.copy(), None
    for gradient in GRADIENTS:
        g = (-gradient if maximize else gradient) + 0.2 * p
        if momentum:
            buffer = g if buffer is None else momentum * buffer + (1 - dampening) * g
            g = g + momentum * buffer if nesterov else buffer
        p = p - 0.1 * g
    np.testing.assert_allclose(values, p, rtol=1e-9)


def test_any_layout_is_updated_in_place():
    base = stowgrad.tensor(np.ascontiguousarray(START.T))
    parameter = nn.Parameter(base.transpose(0, 1))
    optimizer = optim.AdamW([parameter], lr=0.1, betas=(0.9, 0.99), weight_decay=0.3)
    for gradient in GRADIENTS:
        parameter.grad = stowgrad.tensor(gradient)
        optimizer.step()
    np.testing.assert_allclose(base.numpy().T, adam(0.3, True), rtol=1e-9)


def test_state_is_counted_and_named_as_in_pytorch():
    before = pool("cpu").bytes_by_category()["optimizer_state"]
    _, optimizer, parameter = run(optim.AdamW)
    assert pool("cpu").bytes_by_category()["optimizer_state"] - before == 2 * START.nbytes + 4
    state = optimizer.state[parameter]
    assert list(state) == ["step", "exp_avg", "exp_avg_sq"]
    assert state["step"].item() == 4
    assert state["step"].shape == ()
    assert state["step"].dtype == stowgrad.float32
    _, optimizer, parameter = run(lambda params: optim.SGD(params, momentum=0.9))
    assert list(optimizer.state[parameter]) == ["momentum_buffer"]
    _, optimizer, parameter = run(optim.SGD)
    assert optimizer.state_dict()["state"] == {}


def test_a_step_counts_as_a_write():
    parameter = nn.Parameter(stowgrad.tensor(START))
    loss = (parameter * parameter).sum()
    loss.backward(retain_graph=True)
    optim.SGD([parameter]).step()
    assert parameter._version == 1
    with pytest.raises(RuntimeError, match="inplace"):
        loss.backward()


def test_parameters_without_a_gradient_are_left_alone():
    one, two = nn.Parameter(stowgrad.ones(2)), nn.Parameter(stowgrad.ones(2))
    one.grad = stowgrad.ones(2)
    optimizer = optim.AdamW([one, two])
    optimizer.step()
    assert list(optimizer.state) == [one]
    assert two._version == 0
    optimizer.zero_grad(set_to_none=False)
    assert one.grad.numpy().tolist() == [0, 0]


def test_a_closure_runs_with_gradients_on():
    parameter = nn.Parameter(stowgrad.ones(1))
    optimizer = optim.SGD([parameter], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (parameter * parameter).sum()
        loss.backward()
        return loss

    with stowgrad.no_grad():
        assert optimizer.step(closure).item() == 1
    assert parameter.item() == 0


def test_a_step_is_a_phase():
    class Watch(events.Observer):
        seen: list[str]

        def begin(self, kind: str, name: str, subject: object = None) -> None:
            if kind == "phase":
                self.seen.append(name)

    watch = Watch()
    watch.seen = []
    parameter = nn.Parameter(stowgrad.ones(1))
    parameter.grad = stowgrad.ones(1)
    events.add_observer(watch)
    try:
        optim.SGD([parameter]).step()
    finally:
        events.remove_observer(watch)
    assert watch.seen == ["optimizer"]


@pytest.mark.parametrize("make", [optim.AdamW, lambda params: optim.SGD(params, momentum=0.9, dampening=0.5)])
def test_a_step_that_does_not_fit_changes_nothing(make: Any):
    parameters = [nn.Parameter(stowgrad.ones(size)) for size in (1000, 1_000_000)]
    for parameter in parameters:
        parameter.grad = stowgrad.ones(*parameter.shape)
    optimizer = make(parameters)
    cpu = pool("cpu")
    gc.collect()  # the pool would, before it gives up, and so find room
    cpu.free_all_blocks()
    cpu.set_limit(cpu.held_bytes() + (2 << 20))
    try:
        with pytest.raises(stowgrad.memory.MemoryBudgetError):
            optimizer.step()
    finally:
        cpu.set_limit(None)
    assert all(p._version == 0 and (p.detach().numpy() == 1).all() for p in parameters)
    assert dict(optimizer.state) == {}
    optimizer.step()
    assert all(p._version == 1 for p in parameters)


def test_steps_leave_no_memory_behind():
    _, optimizer, parameter = run(optim.AdamW)
    parameter.grad = stowgrad.tensor(GRADIENTS[0])
    before = pool("cpu").used_bytes()
    optimizer.step()
    assert pool("cpu").used_bytes() == before


# -- groups and settings -----------------------------------------------------------------------------------------------


def test_groups_have_settings_of_their_own():
    one, two = nn.Parameter(stowgrad.ones(1)), nn.Parameter(stowgrad.ones(1))
    optimizer = optim.SGD([{"params": one}, {"params": [two], "lr": 0.5}], lr=0.25)
    for parameter in (one, two):
        parameter.grad = stowgrad.ones(1)
    optimizer.step()
    assert (one.item(), two.item()) == (0.75, 0.5)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.5]
    optimizer.add_param_group({"params": nn.Parameter(stowgrad.ones(1)), "momentum": 0.9})
    assert optimizer.param_groups[2]["lr"] == 0.25
    assert repr(optimizer).startswith("SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda p: optim.AdamW(p, lr=-1), "learning rate: -1"),
        (lambda p: optim.AdamW(p, lr=float("nan")), "learning rate: nan"),
        (lambda p: optim.AdamW(p, eps=-1), "epsilon"),
        (lambda p: optim.AdamW(p, weight_decay=-1), "weight_decay"),
        (lambda p: optim.Adam(p, betas=(1.0, 0.9)), "index 0"),
        (lambda p: optim.Adam(p, betas=(0.9, -0.1)), "index 1"),
        (lambda p: optim.Adam(p, betas=(0.9,)), "pair"),
        (lambda p: optim.SGD(p, momentum=-1), "momentum"),
        (lambda p: optim.SGD(p, nesterov=True), "Nesterov"),
        (lambda p: optim.AdamW([{"params": p, "lr": -2}]), "learning rate: -2"),
        (lambda p: optim.AdamW([]), "empty parameter list"),
        (lambda p: optim.AdamW([p[0], p[0]]), "duplicate"),
        (lambda p: optim.AdamW([{"params": p}, {"params": p}]), "more than one parameter group"),
        (lambda p: optim.AdamW([p[0] * 2]), "non-leaf"),
    ],
)
def test_wrong_settings_are_value_errors(make: Any, text: str):
    with pytest.raises(ValueError, match=text):
        make([nn.Parameter(stowgrad.ones(1))])


def test_wrong_types_are_type_errors():
    parameter = nn.Parameter(stowgrad.ones(1))
    with pytest.raises(TypeError, match="iterable of Tensors or dicts"):
        optim.AdamW(parameter)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="one of the params is int"):
        optim.AdamW([1])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="set"):
        optim.AdamW({parameter})
    with pytest.raises(TypeError, match="dict"):
        optim.AdamW([parameter]).add_param_group([parameter])  # type: ignore[arg-type]


# -- state -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [optim.AdamW, lambda params: optim.SGD(params, momentum=0.9)])
def test_a_loaded_optimizer_goes_on_bit_for_bit(make: Any):
    _, straight, _ = run(make)
    expected = straight.param_groups[0]["params"][0].detach().numpy()
    values, optimizer, _ = run(make, steps=2)
    parameter = nn.Parameter(stowgrad.tensor(values))
    twin = make([parameter])
    twin.load_state_dict(optimizer.state_dict())
    for gradient in GRADIENTS[2:]:
        parameter.grad = stowgrad.tensor(gradient)
        twin.step()
    np.testing.assert_array_equal(parameter.detach().numpy(), expected)


def test_state_dict_has_pytorchs_form():
    _, optimizer, _ = run(lambda params: optim.AdamW([{"params": params}, {"params": nn.Parameter(stowgrad.ones(1))}]))
    state = optimizer.state_dict()
    assert list(state) == ["state", "param_groups"]
    assert list(state["state"]) == [0]
    assert [group["params"] for group in state["param_groups"]] == [[0], [1]]
    assert state["param_groups"][0]["betas"] == (0.9, 0.999)


def test_a_loaded_state_is_a_copy_unless_it_is_given_away():
    _, optimizer, parameter = run(optim.AdamW)
    for copy in (True, False):
        twin = optim.AdamW([nn.Parameter(stowgrad.tensor(START))])
        twin.load_state_dict(optimizer.state_dict(), copy=copy)
        state = next(iter(twin.state.values()))
        assert (state["exp_avg"]._array is optimizer.state[parameter]["exp_avg"]._array) is not copy
        assert state["exp_avg"]._storage.category == "optimizer_state"


def test_state_is_cast_to_the_parameter_but_the_step_is_not():
    _, optimizer, _ = run(optim.AdamW)
    twin = optim.AdamW([nn.Parameter(stowgrad.tensor(START).float())])
    saved = optimizer.state_dict()
    saved["state"][0]["step"] = 4
    saved["param_groups"][0]["betas"] = [0.8, 0.9]
    twin.load_state_dict(saved)
    state = next(iter(twin.state.values()))
    assert state["exp_avg"].dtype == stowgrad.float32
    assert state["step"].item() == 4
    assert twin.param_groups[0]["betas"] == (0.8, 0.9)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda s: s["param_groups"].append(s["param_groups"][0]), ValueError, "different number of parameter groups"),
        (lambda s: s["param_groups"][0]["params"].append(1), ValueError, "doesn't match the size"),
        (lambda s: s["state"].update({7: {}}), ValueError, "parameter 7"),
        (lambda s: s["state"][0].update(exp_avg=stowgrad.ones(2)), ValueError, r"exp_avg of parameter 0: shape \[2\]"),
        (lambda s: s["param_groups"][0].update(lr=-1), ValueError, "learning rate"),
        (lambda s: s.pop("state"), KeyError, "state"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(change: Any, error: type[Exception], text: str):
    _, optimizer, parameter = run(optim.AdamW)
    saved = optimizer.state_dict()
    change(saved)
    groups, state = optimizer.param_groups, optimizer.state[parameter]
    with pytest.raises(error, match=text):
        optimizer.load_state_dict(saved)
    assert optimizer.param_groups is groups
    assert optimizer.state[parameter] is state
