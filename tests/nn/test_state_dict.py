"""A module's state by name, loaded all or not at all."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.memory import memory_allocated


def net() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    model.register_buffer("count", stowgrad.zeros(2))
    return model


def values(model: nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def test_keys_are_pytorchs():
    assert list(net().state_dict()) == ["count", "0.weight", "0.bias", "1.weight", "1.bias"]
    assert next(iter(net().state_dict(prefix="model."))) == "model.count"


def test_a_state_dict_shares_memory_and_carries_no_gradient():
    model = net()
    state = model.state_dict()
    assert not any(tensor.requires_grad for tensor in state.values())
    assert model.state_dict(keep_vars=True)["0.weight"] is model[0].weight
    with stowgrad.no_grad():
        model[0].bias.fill_(7)
    assert state["0.bias"].numpy().tolist() == [7] * 4


def test_loading_copies_and_casts():
    source, target = net(), net()
    state = source.double().state_dict()
    version = target[0].weight._version
    assert repr(target.load_state_dict(state)) == "<All keys matched successfully>"
    assert target[0].weight.dtype == stowgrad.float32
    assert target[0].weight._version == version + 1
    for name, value in values(target).items():
        np.testing.assert_array_equal(value, state[name].numpy().astype(np.float32))
    with stowgrad.no_grad():
        source[0].weight.zero_()
    assert target[0].weight.detach().numpy().any()


def test_every_wrong_key_is_named_at_once_and_nothing_is_loaded():
    model = net()
    before = values(model)
    state = {name: stowgrad.full(tensor.shape, 9.0) for name, tensor in model.state_dict().items()}
    del state["0.bias"], state["1.bias"]
    state["0.weight"] = stowgrad.zeros(3, 4)
    state["1.weight"] = [1.0]  # type: ignore[assignment]
    state["extra"] = state["other"] = stowgrad.zeros(1)
    with pytest.raises(RuntimeError) as error:
        model.load_state_dict(state)
    text = str(error.value)
    assert "Error(s) in loading state_dict for Sequential" in text
    assert 'Missing key(s) in state_dict: "0.bias", "1.bias"' in text
    assert 'Unexpected key(s) in state_dict: "extra", "other"' in text
    assert "size mismatch for 0.weight" in text
    assert "[3, 4]" in text
    assert "[4, 3]" in text
    assert '"1.weight": expected a Tensor' in text
    for name, value in values(model).items():
        np.testing.assert_array_equal(value, before[name])


def test_without_strict_what_fits_is_loaded_and_the_rest_reported():
    model = net()
    keys = model.load_state_dict({"count": stowgrad.ones(2), "extra": stowgrad.ones(1)}, strict=False)
    assert keys.missing_keys == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert keys.unexpected_keys == ["extra"]
    assert "missing_keys" in repr(keys)
    assert model.count.numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="size mismatch for count"):
        model.load_state_dict({"count": stowgrad.ones(3)}, strict=False)


def test_assign_takes_the_tensors_over():
    model = net()
    model[0].weight.requires_grad_(False)
    state = net().double().state_dict()
    model.load_state_dict(state, assign=True)
    assert model[0].weight.dtype == stowgrad.float64
    assert model[0].weight._array is state["0.weight"]._array
    assert not model[0].weight.requires_grad
    assert model[0].bias.requires_grad
    assert isinstance(model[0].weight, nn.Parameter)
    assert model.count is state["count"]


def test_a_state_dict_must_be_a_mapping():
    with pytest.raises(TypeError, match="mapping"):
        net().load_state_dict([1])  # type: ignore[arg-type]


def test_a_loaded_state_is_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        model = net()
        before = memory_allocated()
        model.load_state_dict({name: stowgrad.ones_like(tensor) for name, tensor in net().state_dict().items()})
        assert memory_allocated() == before
    finally:
        gc.enable()


def test_tied_parameters_load():
    model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    model["b"].weight = model["a"].weight
    state = {name: stowgrad.full((2, 2), 3.0) for name in model.state_dict()}
    model.load_state_dict(state)
    assert model["a"].weight is model["b"].weight
    assert model["b"].weight.detach().numpy().tolist() == [[3, 3], [3, 3]]


def test_a_module_without_values_takes_those_of_a_state_over():
    state = nn.Linear(2, 3).state_dict()
    layer = nn.Linear(2, 3, device="meta")
    with pytest.warns(UserWarning, match="which is a no-op"):
        layer.load_state_dict(state)
    assert str(layer.weight.device) == "meta"
    layer.load_state_dict(state, assign=True)
    assert layer.weight._storage is state["weight"]._storage
    assert layer.weight._storage.category == "parameter"
    assert layer(stowgrad.ones(2)).shape == (3,)
