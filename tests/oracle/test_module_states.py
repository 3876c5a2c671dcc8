"""Whole networks beside PyTorch's: states that move through a file both ways, and training that goes the same way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import stowgrad
from stowgrad import utils

from . import moduleinfo

RNG = np.random.default_rng(0)


def pictures(lib: Any) -> Any:
    n = lib.nn
    return n.Sequential(
        n.Conv2d(3, 8, 3, stride=2, padding=1, padding_mode="reflect"),
        n.BatchNorm2d(8),
        n.ReLU(),
        n.MaxPool2d(2, ceil_mode=True),
        n.Conv2d(8, 8, 3, padding="same", groups=4, bias=False),
        n.GroupNorm(2, 8),
        n.SiLU(),
        n.ConvTranspose2d(8, 4, 2, stride=2),
        n.InstanceNorm2d(4, affine=True, track_running_stats=True),
        n.PReLU(4),
        n.AdaptiveAvgPool2d((2, None)),
        n.Flatten(),
        n.LazyLinear(5),
    )


def sequences(lib: Any) -> Any:
    class Net(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            n = lib.nn
            self.table = n.Embedding(11, 8)
            self.recurrent = n.LSTM(8, 6, num_layers=2, bidirectional=True, proj_size=4, batch_first=True)
            layer = n.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True)
            self.encoder = n.TransformerEncoder(layer, 2, n.LayerNorm(8), enable_nested_tensor=False)
            self.scales = n.ParameterList([n.Parameter(lib.ones(8)), n.Parameter(lib.ones(8))])
            self.norms = n.ParameterDict({"first": n.Parameter(lib.ones(8))})
            self.head = n.ModuleDict({"out": lib.nn.utils.parametrizations.weight_norm(n.Linear(8, 5))})

        def forward(self, tokens: Any) -> Any:
            x, _ = self.recurrent(self.table(tokens) * self.scales[0])
            length = tokens.shape[1]
            mask = lib.nn.Transformer.generate_square_subsequent_mask(length, dtype=x.dtype)
            x = self.encoder(x * self.scales[1] * self.norms["first"], mask)
            return self.head["out"](x).mean(1)

    return Net()


NETS = {
    "pictures": (pictures, RNG.standard_normal((4, 3, 9, 9))),
    "sequences": (sequences, RNG.integers(0, 11, (4, 7))),
}
names = pytest.mark.parametrize("name", NETS)


def both(name: str) -> tuple[Any, Any, Any, Any]:
    """Both networks and inputs; the networks were called once."""
    make, values = NETS[name]
    ours, theirs = make(stowgrad).double(), make(torch).double()
    x, y = stowgrad.tensor(values), torch.tensor(values)
    ours(x)
    theirs(y)
    return ours, theirs, x, y


@names
def test_states_move_both_ways(name: str, tmp_path: Path):
    ours, theirs, x, y = both(name)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    utils.save_file(ours.state_dict(), tmp_path / "ours.safetensors")
    theirs.load_state_dict(safetensors.torch.load_file(tmp_path / "ours.safetensors"))
    np.testing.assert_allclose(
        ours.eval()(x).detach().numpy(), theirs.eval()(y).detach().numpy(), rtol=1e-9, atol=1e-12
    )
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.mul_(1.5)
    safetensors.torch.save_file(theirs.state_dict(), tmp_path / "theirs.safetensors")
    ours.load_state_dict(utils.load_file(tmp_path / "theirs.safetensors"))
    np.testing.assert_allclose(ours(x).detach().numpy(), theirs(y).detach().numpy(), rtol=1e-9, atol=1e-12)


@names
def test_training_goes_the_same_way(name: str):
    ours, theirs, x, y = both(name)
    moduleinfo.load(ours, theirs)
    target = RNG.integers(0, 5, 4)
    a = stowgrad.optim.AdamW(ours.parameters(), lr=0.01)
    b = torch.optim.AdamW(theirs.parameters(), lr=0.01)
    for _ in range(4):
        losses = []
        for net, value, optimizer, lib in ((ours, x, a, stowgrad), (theirs, y, b, torch)):
            optimizer.zero_grad()
            loss = lib.nn.CrossEntropyLoss(label_smoothing=0.1)(net(value), lib.tensor(target))
            loss.backward()
            lib.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-8)
    for key, value in theirs.state_dict().items():
        # AdamW divides by the gradient's size: where that is nothing but rounding, so is the step
        np.testing.assert_allclose(ours.state_dict()[key].numpy(), value.numpy(), rtol=1e-5, atol=1e-6, err_msg=key)


@names
def test_the_same_keys_are_missing_and_unexpected(name: str):
    ours, theirs, _, _ = both(name)
    state = ours.state_dict()
    removed = list(state)[::3]
    mine = {key: value for key, value in state.items() if key not in removed} | {"extra.a": stowgrad.ones(1)}
    other = {key: torch.tensor(value.numpy()) for key, value in mine.items()}
    got, expected = ours.load_state_dict(mine, strict=False), theirs.load_state_dict(other, strict=False)
    assert got.missing_keys == expected.missing_keys
    assert got.unexpected_keys == expected.unexpected_keys
    with pytest.raises(RuntimeError) as error:
        ours.load_state_dict(mine)
    assert all(f'"{key}"' in str(error.value) for key in (*expected.missing_keys, "extra.a"))


def test_batch_norm_reads_states_from_before_its_count():
    ours, theirs = stowgrad.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    for lib, norm in ((stowgrad, ours), (torch, theirs)):
        state = {key: value for key, value in norm.state_dict().items() if key != "num_batches_tracked"}
        norm.load_state_dict(state)
        with pytest.raises(RuntimeError, match="running_mean"):
            norm.load_state_dict({"weight": lib.ones(3)})


def test_cumulative_average_of_batches():
    values = RNG.standard_normal((3, 6, 4))
    norms = [lib.nn.BatchNorm1d(4, momentum=None).double() for lib in (stowgrad, torch)]
    for batch in values:
        norms[0](stowgrad.tensor(batch))
        norms[1](torch.tensor(batch))
    for key, value in norms[1].state_dict().items():
        np.testing.assert_allclose(norms[0].state_dict()[key].numpy(), value.numpy(), rtol=1e-12, atol=1e-15)
