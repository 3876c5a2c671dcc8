"""What recurrent layers keep, and where they run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.memory import pool

LENGTH, BATCH, SIZE = 20, 8, 32
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
# In sizes of the state, each time step: the gates, the state and what makes it, the stacked output's share.
KEPT = {"RNN": 2, "GRU": 7, "LSTM": 8}


def live() -> int:
    return sum(pool("cpu").bytes_by_category().values())


@pytest.mark.parametrize("name", GATES)
def test_a_step_keeps_its_gates_and_states_once(name: str):
    layer = getattr(nn, name)(SIZE, SIZE)
    x = stowgrad.ones(LENGTH, BATCH, SIZE, requires_grad=True)
    before = live()
    output, _ = layer(x)
    state = BATCH * SIZE * 4
    assert (live() - before) / (LENGTH * state) < KEPT[name] + 0.5
    output.sum().backward()
    assert x.grad.shape == x.shape


@pytest.mark.parametrize("name", GATES)
def test_a_step_at_a_time_is_the_same(name: str):
    """A cell with a layer's parameters gives what the layer gives."""
    layer, cell = getattr(nn, name)(3, 4), getattr(nn, f"{name}Cell")(3, 4)
    cell.load_state_dict({key.removesuffix("_l0"): value for key, value in layer.state_dict().items()})
    x = stowgrad.tensor(np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32))
    _, last = layer(x)
    state: Any = None
    for time in range(5):
        state = cell(x[time], state)
    final = (state,) if name != "LSTM" else state
    last = (last,) if name != "LSTM" else last
    for mine, other in zip(final, last, strict=True):
        np.testing.assert_allclose(mine.detach().numpy(), other[0].detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", GATES)
def test_on_a_device(name: str, device: str):
    layer = getattr(nn, name)(3, 4, num_layers=2, bidirectional=True, dropout=0.5, device=device)
    x = stowgrad.ones(5, 2, 3, device=device, requires_grad=True)
    output, _ = layer(x)
    output.sum().backward()
    assert str(output.device) == device
    assert output.shape == (5, 2, 8)
    assert all(p.grad is not None for p in layer.parameters())
    assert [len(weights) for weights in layer.all_weights] == [4] * 4


def test_dropout_lies_between_the_layers_in_training_only():
    with pytest.warns(UserWarning, match="num_layers greater than 1"):
        nn.LSTM(3, 4, dropout=0.5)
    layer = nn.GRU(3, 4, num_layers=2, dropout=1.0)
    x = stowgrad.ones(5, 2, 3)
    trained = layer(x)[0].detach().numpy()
    np.testing.assert_array_equal(trained, layer(x * 2)[0].detach().numpy())  # the second layer sees zeros
    evaluated = layer.eval()(x)[0].detach().numpy()
    assert (trained != evaluated).any()


def test_what_does_not_fit_is_named():
    layer = nn.LSTM(3, 4)
    x = stowgrad.ones(5, 2, 3)
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(1, 2, 4\), got \[1, 3, 4\]"):
        layer(x, (stowgrad.zeros(1, 2, 4), stowgrad.zeros(1, 3, 4)))
    with pytest.raises(RuntimeError, match="should also be 3-D but got 2-D"):
        layer(x, (stowgrad.zeros(2, 4), stowgrad.zeros(2, 4)))
    with pytest.raises(ValueError, match="input dtype"):
        layer(x.double())
    with pytest.raises(RuntimeError, match="sequence length to be larger than 0"):
        layer(stowgrad.ones(0, 2, 3))
    with pytest.raises(RuntimeError, match="Unknown nonlinearity"):
        nn.RNNCell(3, 4, nonlinearity="sin")(x[0])
