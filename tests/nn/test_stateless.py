"""Modules called with other tensors, and modules without first values."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.nn.utils import functional_call, skip_init


def test_other_parameters_take_part_and_get_the_gradients():
    layer = nn.Linear(2, 3)
    own = dict(layer.named_parameters())
    given = {name: stowgrad.ones(p.shape, requires_grad=True) for name, p in own.items()}
    x = stowgrad.ones(4, 2)
    out = functional_call(layer, given, x)
    assert out.detach().numpy().tolist() == [[3.0] * 3] * 4
    out.sum().backward()
    assert given["weight"].grad.numpy().tolist() == [[4.0, 4.0]] * 3
    assert layer.weight is own["weight"]
    assert layer.weight.grad is None
    only_bias = functional_call(layer, {"bias": stowgrad.zeros(3)}, (x,))
    np.testing.assert_allclose(only_bias.detach().numpy(), (x @ layer.weight.t()).detach().numpy(), rtol=1e-6)


def test_buffers_that_change_are_put_into_the_dict():
    layer = nn.BatchNorm1d(3)
    mean = stowgrad.zeros(3)
    functional_call(layer, {"running_mean": mean}, stowgrad.arange(6.0).reshape(2, 3))
    assert mean.numpy().any()
    assert not layer.running_mean.numpy().any()

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", stowgrad.zeros(1))

        def forward(self) -> None:
            self.count = self.count + 1

    given = {"count": stowgrad.ones(1)}
    made = Counts()
    functional_call(made, given)
    assert given["count"].item() == 2
    assert made.count.item() == 0


def test_shared_parameters():
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    net[1].weight = net[0].weight
    twice = stowgrad.full((2, 2), 2.0)
    x = stowgrad.ones(2)
    assert functional_call(net, {"0.weight": twice}, x).tolist() == [16.0, 16.0]
    one = functional_call(net, {"0.weight": twice}, x, tie_weights=False)
    np.testing.assert_allclose(one.detach().numpy(), net[1](stowgrad.full((2,), 4.0)).detach().numpy())
    with pytest.raises(ValueError, match="tied"):
        functional_call(net, {"0.weight": twice, "1.weight": twice * 2}, x)


def test_what_is_refused_and_that_the_module_survives():
    layer = nn.Linear(2, 3)
    before = layer.weight
    x = stowgrad.ones(2)
    with pytest.raises(RuntimeError, match=r"missing key\(s\) \['bias'\], unexpected key\(s\) \['scale'\]"):
        functional_call(layer, {"weight": before, "scale": x}, x, strict=True)
    with pytest.raises(ValueError, match="multiple dictionaries"):
        functional_call(layer, ({"weight": before}, {"weight": before}), x)
    with pytest.raises(TypeError, match="a list/tuple of dicts"):
        functional_call(layer, 3, x)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError):
        functional_call(layer, {"weight": stowgrad.ones(3, 5)}, x)
    assert layer.weight is before


def test_several_dicts_and_keyword_arguments():
    layer = nn.Linear(2, 1)
    dicts = [{"weight": stowgrad.ones(1, 2)}, {"bias": stowgrad.ones(1)}]
    out = functional_call(layer, dicts, None, {"input": stowgrad.ones(2)})
    assert out.item() == 3


def test_without_first_values():
    made = skip_init(nn.Linear, 3, 4, bias=False)
    assert made.weight.shape == (4, 3)
    assert str(made.weight.device) == "cpu"
    assert made.weight._storage.category == "parameter"
    with pytest.raises(RuntimeError, match="Expected a Module"):
        skip_init(int)  # type: ignore[type-var]
