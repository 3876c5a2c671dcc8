"""Modules that learn sizes from their first input."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.nn.modules.lazy import LazyModuleMixin


def test_the_first_call_makes_it_a_plain_module():
    layer = nn.LazyLinear(4, dtype=stowgrad.float64)
    weight = layer.weight
    assert isinstance(weight, nn.UninitializedParameter)
    assert layer.has_uninitialized_params()
    assert repr(layer) == "LazyLinear(in_features=0, out_features=4, bias=True)"
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    out = layer(stowgrad.ones(2, 3, dtype=stowgrad.float64))
    assert out.shape == (2, 4)
    assert type(layer) is nn.Linear
    assert layer.weight is weight
    assert type(weight) is nn.Parameter
    assert weight.dtype == stowgrad.float64
    assert weight.detach().numpy().any()
    assert weight._storage.category == "parameter"
    assert not layer._forward_pre_hooks
    before = weight.detach().numpy().copy()
    out.sum().backward()
    optimizer.step()
    assert (weight.detach().numpy() != before).all()


def test_without_a_bias_and_with_groups():
    layer = nn.LazyConv2d(4, 3, groups=2, bias=False)
    layer(stowgrad.ones(6, 5, 5))
    assert layer.weight.shape == (4, 3, 3, 3)
    assert layer.bias is None
    with pytest.raises(ValueError, match="divisible by groups"):
        nn.LazyConv2d(4, 3, groups=2)(stowgrad.ones(3, 5, 5))
    with pytest.raises(RuntimeError, match=r"Expected 3D \(unbatched\) or 4D \(batched\) input to LazyConv2d"):
        nn.LazyConv2d(4, 3)(stowgrad.ones(3, 5))
    unbatched = nn.LazyInstanceNorm1d()
    unbatched(stowgrad.arange(6.0).reshape(2, 3))
    assert unbatched.num_features == 2


def test_copies_before_the_first_call_learn_by_themselves():
    layer = nn.LazyLinear(2)
    twin, other = copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))
    twin(stowgrad.ones(3))
    other(stowgrad.ones(5))
    assert twin.weight.shape == (2, 3)
    assert other.weight.shape == (2, 5)
    assert layer.has_uninitialized_params()
    assert repr(layer.weight) == "<UninitializedParameter>"


def test_loading_gives_shapes_or_nothing():
    source = nn.Linear(3, 2)
    layer = nn.LazyLinear(2)
    with pytest.raises(RuntimeError, match="Missing"):
        layer.load_state_dict({"weight": source.weight})
    assert layer.has_uninitialized_params()
    layer.load_state_dict(source.state_dict())
    x = stowgrad.ones(3)
    np.testing.assert_array_equal(layer(x).detach().numpy(), source(x).detach().numpy())
    assert layer.in_features == 3
    conv = nn.LazyConvTranspose1d(4, 3)
    conv.load_state_dict(nn.ConvTranspose1d(2, 4, 3).state_dict())
    conv(stowgrad.ones(2, 5))
    assert conv.in_channels == 2
    lazy = nn.LazyLinear(2).state_dict()
    nn.LazyLinear(2).load_state_dict(lazy)
    with pytest.raises(RuntimeError, match="weight: the state_dict has a tensor without a shape"):
        source.load_state_dict(lazy)


def test_what_has_no_shape_says_so():
    with pytest.raises(RuntimeError, match="Call `forward` to initialize"):
        _ = nn.UninitializedParameter().shape
    buffer = nn.UninitializedBuffer(persistent=False)
    buffer.materialize((2,), dtype=stowgrad.float64)
    assert type(buffer) is nn.Buffer
    assert not buffer.persistent
    assert buffer.dtype == stowgrad.float64


def test_a_lazy_module_of_ones_own():
    class Scale(LazyModuleMixin):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.UninitializedParameter()

        def initialize_parameters(self, x: Any) -> None:
            if x.dim() == 1:
                self.factor.materialize(x.shape)
                nn.init.ones_(self.factor)

        def forward(self, x: Any) -> Any:
            return x * self.factor

    made = Scale()
    with pytest.raises(RuntimeError, match="has not been fully initialized"):
        made(stowgrad.ones(2, 2))
    assert made(stowgrad.ones(2)).tolist() == [1.0, 1.0]
    assert type(made) is Scale
    with pytest.raises(NotImplementedError, match="initialize_parameters"):
        LazyModuleMixin()(1)
