"""Averages of models beside PyTorch's."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

PAIR = (stowgrad, torch)
START = np.random.default_rng(0).standard_normal((3, 4))


def network(library: Any) -> Any:
    net = library.nn.Sequential(library.nn.Linear(4, 3), library.nn.BatchNorm1d(3), library.nn.ReLU()).double()
    with library.no_grad():
        net[0].weight.copy_(library.tensor(START))
        net[0].bias.zero_()
    return net


def tools(library: Any) -> Any:
    return library.optim.swa_utils


@pytest.mark.parametrize("use_buffers", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda library: {},
        lambda library: {"multi_avg_fn": tools(library).get_ema_multi_avg_fn(0.9)},
        lambda library: {"multi_avg_fn": tools(library).get_swa_multi_avg_fn()},
        lambda library: {"avg_fn": tools(library).get_ema_avg_fn(0.7)},
        lambda library: {"avg_fn": tools(library).get_swa_avg_fn()},
    ],
)
def test_averages(make: Any, use_buffers: bool):
    if use_buffers and make(torch).get("multi_avg_fn") and "swa" in make(torch)["multi_avg_fn"].__name__:
        pytest.skip("PyTorch's function cannot average counts")
    states = []
    for library in PAIR:
        rng = np.random.default_rng(1)
        net = network(library)
        average = tools(library).AveragedModel(net, use_buffers=use_buffers, **make(library))
        optimizer = library.optim.SGD(net.parameters(), lr=0.5)
        for _ in range(5):
            loss = (net(library.tensor(rng.standard_normal((6, 4)))) ** 2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update_parameters(net)
        states.append({name: value.numpy() for name, value in average.state_dict().items()})
        x = rng.standard_normal((20, 4))
        batches = [[library.tensor(x[:7])], [library.tensor(x[7:])]]
        tools(library).update_bn(batches, average)
        assert average.module[1].momentum == 0.1
        states[-1] |= {f"{name} again": value.numpy() for name, value in average.state_dict().items()}
        states[-1]["output"] = average.eval()(library.tensor(x)).detach().numpy()
    assert list(states[0]) == list(states[1])
    for name, value in states[0].items():
        np.testing.assert_allclose(value, states[1][name], rtol=1e-7, atol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"anneal_epochs": 3, "anneal_strategy": "linear"},
        {"anneal_epochs": 0},
    ],
)
def test_swalr(kwargs: dict[str, Any]):
    rates = []
    for library in PAIR:
        parameter = library.nn.Parameter(library.tensor([1.0]))
        optimizer = library.optim.SGD([parameter], lr=0.5)
        schedule = tools(library).SWALR(optimizer, swa_lr=0.05, **kwargs)
        found = []
        for _ in range(14):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        rates.append(found)
        twin = tools(library).SWALR(optimizer, swa_lr=0.05, **kwargs)
        twin.load_state_dict(schedule.state_dict())
        assert twin.last_epoch == 14
    assert rates[0] == pytest.approx(rates[1], rel=1e-12)


@pytest.mark.parametrize("name", torch.optim.swa_utils.__all__)
def test_signatures(name: str):
    def arguments(library: Any) -> list[tuple[str, Any]]:
        given = inspect.signature(getattr(tools(library), name)).parameters.values()
        return [(p.name, p.default) for p in given]

    assert arguments(stowgrad) == arguments(torch)


def test_errors():
    for library in PAIR:
        found = tools(library)
        with pytest.raises(ValueError, match="Invalid decay value 2"):
            found.get_ema_multi_avg_fn(2)
        with pytest.raises(ValueError, match="Invalid decay value -1"):
            found.get_ema_avg_fn(-1)
        with pytest.raises(AssertionError, match="Only one"):
            found.AveragedModel(
                network(library), avg_fn=found.get_swa_avg_fn(), multi_avg_fn=found.get_swa_multi_avg_fn()
            )
        optimizer = library.optim.SGD(network(library).parameters())
        with pytest.raises(ValueError, match="anneal_strategy"):
            found.SWALR(optimizer, 0.1, anneal_strategy="no")
        with pytest.raises(ValueError, match="anneal_epochs"):
            found.SWALR(optimizer, 0.1, anneal_epochs=-1)
