"""Optimizers on a device with memory of its own, and in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.utils import load_training_state, save_training_state

KINDS = [
    optim.SGD,
    optim.AdamW,
    optim.AdamW8bit,
    optim.Adagrad,
    optim.Adadelta,
    optim.Adamax,
    optim.Adafactor,
    optim.NAdam,
    optim.RAdam,
    optim.RMSprop,
    optim.Rprop,
    optim.ASGD,
]


def trained(kind: Any, device: str, fused: bool) -> tuple[nn.Module, optim.Optimizer]:
    stowgrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 1)).to(device)
    of = kind(net.parameters(), lr=0.01)
    if fused:
        optim.in_backward(of)
    rng = np.random.default_rng(0)
    for _ in range(3):
        of.zero_grad()
        for parameter in net.parameters():  # gradients that are the same on every device
            gradient = rng.standard_normal(tuple(parameter.shape)).astype(np.float32)
            (parameter * stowgrad.tensor(gradient, device=device)).sum().backward()
        of.step()
    return net, of


@pytest.mark.parametrize("kind", KINDS)
def test_an_accelerator_gives_the_same(kind: Any):
    nets = [trained(kind, device, fused) for device, fused in (("cpu", False), ("sim:0", False), ("sim:0", True))]
    for net, of in nets[1:]:
        for mine, expected in zip(net.parameters(), nets[0][0].parameters(), strict=True):
            assert mine.device.type == "sim"
            np.testing.assert_array_equal(mine.detach().cpu().numpy(), expected.detach().numpy())
            for name, value in of.state[mine].items():
                assert value.device.type == ("cpu" if name in of.scalars else "sim")


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_state_holds_every_optimizer(kind: Any, tmp_path: Path):
    net, of = trained(kind, "cpu", False)
    save_training_state(tmp_path / "state", model=net, optimizer=of)
    twin = nn.Sequential(nn.Linear(16, 512), nn.ReLU(), nn.Linear(512, 1))
    other = kind(twin.parameters(), lr=0.5)
    load_training_state(tmp_path / "state", model=twin, optimizer=other)
    for model, optimizer in ((net, of), (twin, other)):
        optimizer.zero_grad()
        (model(stowgrad.ones(2, 16)) ** 2).mean().backward()
        optimizer.step()
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_an_average_on_another_device():
    net = nn.Linear(3, 2)
    average = optim.swa_utils.AveragedModel(net, device="sim:0", multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5))
    for _ in range(2):
        average.update_parameters(net)
    assert average.module.weight.device.type == "sim"
    np.testing.assert_allclose(average.module.weight.detach().cpu().numpy(), net.weight.detach().numpy(), rtol=1e-6)
