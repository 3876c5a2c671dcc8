"""Modules and optimizers beside PyTorch's, with the same weights, gradients and settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import stowgrad
from stowgrad import nn, optim, utils
from stowgrad.optim import lr_scheduler

RNG = np.random.default_rng(0)
SHAPES = [(5, 4), (7,), (2, 3, 2)]


def trajectories(ours: Any, theirs: Any, dtype: type = np.float64, steps: int = 10) -> tuple[Any, Any]:
    """Both optimizers after the same steps over parameters of `SHAPES`; the values are compared on the way."""
    start = [RNG.standard_normal(shape).astype(dtype) for shape in SHAPES]
    mine = [nn.Parameter(stowgrad.tensor(value)) for value in start]
    others = [torch.nn.Parameter(torch.tensor(value)) for value in start]
    a, b = ours(mine), theirs(others)
    # float32: our state may differ from PyTorch's in the last bits, since its kernels fuse multiply and add
    tolerance = {"rtol": 1e-12, "atol": 1e-14} if dtype is np.float64 else {"rtol": 2e-5, "atol": 1e-6}
    for step in range(steps):
        for x, y in zip(mine, others, strict=True):
            gradient = RNG.standard_normal(x.shape).astype(dtype)
            skip = step == 4 and x.ndim == 1
            x.grad = None if skip else stowgrad.tensor(gradient)
            y.grad = None if skip else torch.tensor(gradient)
        a.step()
        b.step()
        for x, y in zip(mine, others, strict=True):
            np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), **tolerance)
    return a, b


ADAM = [
    {},
    {"weight_decay": 0.1},
    {"lr": 0.1, "betas": (0.5, 0.6), "eps": 1e-3},
    {"maximize": True, "weight_decay": 0.2},
    {"amsgrad": True},
    {"betas": (0.0, 0.999)},
]
SGD = [
    {"lr": 0.1},
    {"lr": 0.1, "momentum": 0.9},
    {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    {"lr": 0.1, "momentum": 0.5, "maximize": True, "weight_decay": 0.1},
]
CASES = [(name, kwargs) for name in ("Adam", "AdamW") for kwargs in ADAM] + [("SGD", kwargs) for kwargs in SGD]


@pytest.mark.parametrize(("name", "kwargs"), CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_trajectories_and_states(name: str, kwargs: dict[str, Any], dtype: type):
    a, b = trajectories(
        lambda params: getattr(optim, name)(params, **kwargs),
        lambda params: getattr(torch.optim, name)(params, foreach=False, **kwargs),
        dtype,
    )
    ours, theirs = a.state_dict(), b.state_dict()
    assert list(ours["state"]) == list(theirs["state"])
    for number, values in theirs["state"].items():
        assert set(ours["state"][number]) == set(values)
        for key, value in values.items():
            mine = ours["state"][number][key]
            np.testing.assert_allclose(mine.numpy(), value.numpy(), rtol=1e-5, atol=1e-6)
            assert mine.shape == tuple(value.shape)
            assert str(mine.dtype) == str(value.dtype).removeprefix("torch.")
    choices = {"foreach", "fused", "capturable", "differentiable"}
    for mine, other in zip(ours["param_groups"], theirs["param_groups"], strict=True):
        assert {k: v for k, v in mine.items() if k not in choices} == {
            k: v for k, v in other.items() if k not in choices
        }


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_optimizer_states_move_both_ways(name: str):
    kwargs = {"momentum": 0.9} if name == "SGD" else {}
    a, b = trajectories(
        lambda params: getattr(optim, name)(params, **kwargs),
        lambda params: getattr(torch.optim, name)(params, **kwargs),
    )
    into_torch = {
        "state": {n: {k: torch.tensor(v.numpy()) for k, v in s.items()} for n, s in a.state_dict()["state"].items()},
        "param_groups": a.state_dict()["param_groups"],
    }
    from_torch = {
        "state": {n: {k: stowgrad.tensor(v.numpy()) for k, v in s.items()} for n, s in b.state_dict()["state"].items()},
        "param_groups": b.state_dict()["param_groups"],
    }
    b.load_state_dict(into_torch)
    a.load_state_dict(from_torch)
    for x, y in zip(a.param_groups[0]["params"], b.param_groups[0]["params"], strict=True):
        gradient = RNG.standard_normal(x.shape)
        x.grad, y.grad = stowgrad.tensor(gradient), torch.tensor(gradient)
    a.step()
    b.step()
    for x, y in zip(a.param_groups[0]["params"], b.param_groups[0]["params"], strict=True):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-12)


def modules(lib: Any) -> Any:
    """The same network in both libraries."""
    n = lib.nn
    return n.Sequential(
        n.ModuleDict({"embed": n.Embedding(11, 6, padding_idx=2)})["embed"],
        n.Linear(6, 8),
        n.GELU(approximate="tanh"),
        n.LayerNorm(8),
        n.Linear(8, 5, bias=False),
        n.ReLU(),
    )


def test_state_dicts_move_both_ways_through_safetensors(tmp_path: Path):
    ours, theirs = modules(stowgrad), modules(torch)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    utils.save_file(ours.state_dict(), tmp_path / "ours.safetensors", {"format": "pt"})
    theirs.load_state_dict(safetensors.torch.load_file(tmp_path / "ours.safetensors"))
    tokens = RNG.integers(0, 11, (4, 7))
    x, y = ours(stowgrad.tensor(tokens)), theirs(torch.tensor(tokens))
    np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        theirs[1].weight.mul_(3)
    safetensors.torch.save_file(theirs.bfloat16().state_dict(), tmp_path / "theirs.safetensors")
    ours.load_state_dict(utils.load_file(tmp_path / "theirs.safetensors"))
    np.testing.assert_array_equal(ours[1].weight.detach().numpy(), theirs[1].weight.detach().float().numpy())


def test_gradients_and_clipping():
    ours, theirs = modules(stowgrad).double(), modules(torch).double()
    ours.load_state_dict({name: stowgrad.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    tokens, target = RNG.integers(0, 11, (4, 7)), RNG.integers(0, 5, (4, 7))
    target[0, 0] = -100
    x = ours(stowgrad.tensor(tokens)).permute(0, 2, 1)
    y = theirs(torch.tensor(tokens)).permute(0, 2, 1)
    loss_x = nn.functional.cross_entropy(x, stowgrad.tensor(target))
    loss_y = torch.nn.functional.cross_entropy(y, torch.tensor(target))
    loss_x.backward()
    loss_y.backward()
    assert loss_x.item() == pytest.approx(loss_y.item(), rel=1e-12)

    def compare() -> None:
        for (name, p), q in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-13, err_msg=name)

    compare()
    for norm_type in (1.0, 3.0, float("inf"), 2.0):
        norm = nn.utils.clip_grad_norm_(ours.parameters(), 1e-3, norm_type)
        expected = torch.nn.utils.clip_grad_norm_(theirs.parameters(), 1e-3, norm_type)
        assert norm.item() == pytest.approx(expected.item(), rel=1e-12)
        compare()


def test_linear_cross_entropy_and_attention():
    F, G = nn.functional, torch.nn.functional
    x, w, b = RNG.standard_normal((6, 3)), RNG.standard_normal((7, 3)), RNG.standard_normal(7)
    target = np.array([0, 1, 6, -100, 2, 2])
    ours = [stowgrad.tensor(v, requires_grad=True) for v in (x, w, b)]
    theirs = [torch.tensor(v, requires_grad=True) for v in (x, w, b)]
    F.linear_cross_entropy(ours[0], ours[1], stowgrad.tensor(target), linear_bias=ours[2]).backward()
    G.cross_entropy(G.linear(*theirs), torch.tensor(target)).backward()
    q = [RNG.standard_normal((2, 3, 9, 4)) for _ in range(3)]
    bias = RNG.standard_normal((9, 9))
    ours += [stowgrad.tensor(v, requires_grad=True) for v in q]
    theirs += [torch.tensor(v, requires_grad=True) for v in q]
    for kwargs in ({"is_causal": True}, {"scale": 0.2}, {"attn_mask": bias}):
        converted = [
            {k: make(v) if k == "attn_mask" else v for k, v in kwargs.items()}
            for make in (stowgrad.tensor, torch.tensor)
        ]
        out = F.scaled_dot_product_attention(*ours[3:], **converted[0])
        expected = G.scaled_dot_product_attention(*theirs[3:], **converted[1])
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)
        (out * out).sum().backward()
        (expected * expected).sum().backward()
    for a, e in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), e.grad.numpy(), rtol=1e-8, atol=1e-12)


def test_reprs():
    ours = repr(nn.Sequential(modules(stowgrad), nn.ModuleList([nn.Linear(2, 2)] * 3)))
    theirs = repr(torch.nn.Sequential(modules(torch), torch.nn.ModuleList([torch.nn.Linear(2, 2)] * 3)))
    # PyTorch's ReLU has a setting that ours lacks, and says nothing about it by default
    assert ours == theirs


SCHEDULES = [
    ("LinearLR", {"start_factor": 0.1, "total_iters": 4}),
    ("LinearLR", {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 3}),
    ("CosineAnnealingLR", {"T_max": 5, "eta_min": 0.01}),
    ("LambdaLR", {"lr_lambda": lambda step: 0.9**step}),
]


@pytest.mark.parametrize(("name", "kwargs"), SCHEDULES)
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_schedules(name: str, kwargs: dict[str, Any]):
    a = optim.SGD([nn.Parameter(stowgrad.ones(1))], lr=0.3)
    b = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.3)
    ours, theirs = getattr(lr_scheduler, name)(a, **kwargs), getattr(torch.optim.lr_scheduler, name)(b, **kwargs)
    for _ in range(17):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-9, abs=1e-12)
        ours.step()
        theirs.step()
