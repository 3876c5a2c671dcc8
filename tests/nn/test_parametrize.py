"""Parameters that are computed from others."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.nn.utils import parametrizations, parametrize


class Symmetric(nn.Module):
    def forward(self, x: Any) -> Any:
        return x.triu() + x.triu(1).t()

    def right_inverse(self, x: Any) -> Any:
        return x.triu()


class Doubled(nn.Module):
    def forward(self, x: Any) -> Any:
        return x * 2


class RankOne(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x.unsqueeze(1) * y

    def right_inverse(self, z: Any) -> Any:
        return z[:, 0], z[0] / z[0, 0]


def symmetric() -> nn.Module:
    return parametrize.register_parametrization(nn.Linear(3, 3), "weight", Symmetric())


def test_a_parametrized_weight_is_computed_and_trained():
    layer = nn.Linear(3, 3)
    before = layer.weight
    values = before.detach().numpy().copy()
    assert parametrize.register_parametrization(layer, "weight", Symmetric()) is layer
    assert layer.parametrizations.weight.original is before
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    np.testing.assert_allclose(layer.weight.detach().numpy(), np.triu(values) + np.triu(values, 1).T)
    shown = "ParametrizedLinear(\n  in_features=3, out_features=3, bias=True\n  (parametrizations)"
    assert repr(layer).startswith(shown)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    layer(stowgrad.ones(2, 3)).pow(2).sum().backward()
    optimizer.step()
    now = layer.weight.detach().numpy()
    np.testing.assert_array_equal(now, now.T)
    assert parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert parametrize.type_before_parametrizations(layer) is nn.Linear


def test_assignment_goes_through_the_inverse():
    layer = symmetric()
    wanted = np.arange(9, dtype=np.float32).reshape(3, 3)
    wanted = wanted + wanted.T
    layer.weight = stowgrad.tensor(wanted)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), wanted)
    assert isinstance(layer.parametrizations.weight.original, nn.Parameter)
    parametrize.register_parametrization(layer, "weight", Doubled())
    np.testing.assert_array_equal(layer.weight.detach().numpy(), wanted * 2)
    with pytest.raises(RuntimeError, match="Doubled does not implement right_inverse"):
        layer.weight = stowgrad.tensor(wanted)


def test_several_originals():
    layer = parametrize.register_parametrization(nn.Linear(3, 4), "weight", RankOne())
    names = [name for name, _ in layer.named_parameters()]
    assert names == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert np.linalg.matrix_rank(layer.weight.detach().numpy()) == 1
    layer.weight.sum().backward()
    assert layer.parametrizations.weight.original1.grad is not None
    layer.weight = stowgrad.ones(4, 3)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), np.ones((4, 3)))
    with pytest.raises(ValueError, match="sequence of tensors"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter)


@pytest.mark.parametrize("leave", [True, False])
def test_removal(leave: bool):
    layer = symmetric()
    original = layer.parametrizations.weight.original
    expected = (layer.weight if leave else original).detach().numpy().copy()
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert type(layer) is nn.Linear
    assert layer.weight is original
    np.testing.assert_array_equal(layer.weight.detach().numpy(), expected)
    assert sorted(layer.state_dict()) == ["bias", "weight"]
    assert layer.weight._storage.category == "parameter"
    with pytest.raises(ValueError, match="does not have a parametrization"):
        parametrize.remove_parametrizations(layer, "weight")


def test_a_copy_is_a_module_of_its_own():
    layer = symmetric()
    twin = copy.deepcopy(layer)
    parametrize.remove_parametrizations(layer, "weight")
    values = twin.weight.detach().numpy()
    np.testing.assert_array_equal(values, values.T)
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(twin)


def test_within_cached_it_is_computed_once():
    layer = symmetric()
    assert layer.weight is not layer.weight
    with parametrize.cached():
        with parametrize.cached():
            first = layer.weight
        assert layer.weight is first
    assert layer.weight is not first


def test_buffers_and_what_is_refused():
    layer = nn.BatchNorm1d(3)
    parametrize.register_parametrization(layer, "running_mean", Doubled())
    assert "parametrizations.running_mean.original" in layer.state_dict()

    class Casts(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.double()

    class Shortens(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[:1]

    for wrong, text in ((Casts(), "change the dtype"), (Shortens(), "change the shape")):
        for module in (nn.Linear(2, 2), parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())):
            with pytest.raises(ValueError, match=text):
                parametrize.register_parametrization(module, "weight", wrong)
    shortened = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Shortens(), unsafe=True)
    assert shortened.weight.shape == (1, 2)
    with pytest.raises(ValueError, match="does not have a parameter"):
        parametrize.register_parametrization(nn.Linear(2, 2), "scale", Doubled())
    with pytest.raises(ValueError, match="one or more modules"):
        parametrize.ParametrizationList([], stowgrad.ones(1))


def test_weight_norm_shares_the_memory_of_the_weight_and_reads_old_names():
    layer = nn.Linear(3, 4)
    weight = layer.weight
    values = weight.detach().numpy().copy()
    parametrizations.weight_norm(layer)
    assert layer.parametrizations.weight.original1._storage is weight._storage
    np.testing.assert_allclose(layer.weight.detach().numpy(), values, rtol=1e-6)
    state = layer.state_dict()
    old = {
        "bias": state["bias"],
        "weight_g": state["parametrizations.weight.original0"] * 2,
        "weight_v": state["parametrizations.weight.original1"],
    }
    layer.load_state_dict(old)
    np.testing.assert_allclose(layer.weight.detach().numpy(), values * 2, rtol=1e-6)


def test_spectral_norm_brings_the_largest_singular_value_to_one():
    stowgrad.manual_seed(0)
    layer = parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=20)
    first = layer(stowgrad.ones(1, 5))
    layer(stowgrad.ones(1, 5))
    first.sum().backward()  # a second forward has moved the vectors since
    values = np.linalg.svd(layer.weight.detach().numpy(), compute_uv=False)
    assert values[0] == pytest.approx(1, abs=1e-3)
    with pytest.raises(ValueError, match="n_power_iterations"):
        parametrizations.spectral_norm(nn.Linear(5, 4), n_power_iterations=0)
    with pytest.raises(ValueError, match="no parameter or buffer"):
        parametrizations.spectral_norm(nn.Linear(5, 4), "scale")
    with pytest.raises(IndexError, match="out of range"):
        parametrizations.spectral_norm(nn.Linear(5, 4), dim=2)


@pytest.mark.parametrize("size", [(4, 4), (6, 4), (4, 6)])
@pytest.mark.parametrize("how", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivialized", [True, False])
def test_orthogonal_matrices(size: tuple[int, int], how: str, trivialized: bool):
    layer = nn.Linear(*size)
    nn.init.orthogonal_(layer.weight)
    layer = parametrizations.orthogonal(layer, orthogonal_map=how, use_trivialization=trivialized).double()
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        layer.weight.pow(3).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    q = layer.weight.detach().numpy()
    small = q @ q.T if q.shape[0] < q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, np.eye(len(small)), atol=1e-5)


def test_what_can_not_be_orthogonal():
    with pytest.raises(ValueError, match="Expected a matrix"):
        parametrizations.orthogonal(nn.Linear(2, 2), "bias")
    with pytest.raises(ValueError, match="has to be one of"):
        parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="qr")
