"""Each layer against NumPy on small inputs, and how its parameters begin."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stowgrad
from stowgrad import nn


def test_linear_computes_and_begins_like_pytorch():
    layer = nn.Linear(100, 50)
    weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    assert weight.shape == (50, 100)
    assert 0.09 < np.abs(weight).max() <= 0.1
    assert 0.07 < np.abs(bias).max() <= 0.1
    assert weight.std() == pytest.approx(0.1 / math.sqrt(3), rel=0.05)
    x = np.random.default_rng(0).standard_normal((2, 3, 100), dtype=np.float32)
    out = layer(stowgrad.from_numpy(x))
    np.testing.assert_allclose(out.detach().numpy(), x @ weight.T + bias, rtol=1e-4, atol=1e-5)


def test_linear_without_bias_and_without_elements():
    layer = nn.Linear(3, 2, bias=False, dtype=stowgrad.float64)
    assert layer.bias is None
    assert list(layer.state_dict()) == ["weight"]
    assert layer.weight.dtype == stowgrad.float64
    assert nn.Linear(0, 2).bias.detach().numpy().tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="negative dimension"):
        nn.Linear(-1, 2)


def test_seeded_layers_are_the_same():
    stowgrad.manual_seed(5)
    first = nn.Linear(3, 3).weight.detach().numpy()
    stowgrad.manual_seed(5)
    np.testing.assert_array_equal(nn.Linear(3, 3).weight.detach().numpy(), first)


def test_embedding():
    table = nn.Embedding(200, 50, padding_idx=-1)
    weight = table.weight.detach().numpy()
    assert table.padding_idx == 199
    assert not weight[199].any()
    assert weight[:199].std() == pytest.approx(1, rel=0.05)
    out = table(stowgrad.tensor([[3, 199], [3, 0]]))
    np.testing.assert_array_equal(out.detach().numpy(), weight[[[3, 199], [3, 0]]])
    out.sum().backward()
    rows = table.weight.grad.numpy()[:, 0]
    assert rows[3] == 2
    assert rows[0] == 1
    assert rows[199] == 0
    assert rows.sum() == 3


def test_embedding_from_pretrained():
    values = stowgrad.ones(4, 2)
    table = nn.Embedding.from_pretrained(values)
    assert not table.weight.requires_grad
    assert table.weight._array is values._array
    assert nn.Embedding.from_pretrained(values, freeze=False).weight.requires_grad
    with pytest.raises(ValueError, match="2-dimensional"):
        nn.Embedding.from_pretrained(stowgrad.ones(3))


def test_embedding_refuses_what_is_no_row():
    with pytest.raises(ValueError, match="within num_embeddings"):
        nn.Embedding(3, 2, padding_idx=3)
    with pytest.raises(IndexError, match="out of range"):
        nn.Embedding(3, 2)(stowgrad.tensor([3]))
    with pytest.raises(RuntimeError, match="integer"):
        nn.Embedding(3, 2)(stowgrad.ones(1))


def test_layer_norm():
    layer = nn.LayerNorm([2, 4], eps=1e-3)
    assert layer.weight.shape == layer.bias.shape == (2, 4)
    with stowgrad.no_grad():
        layer.weight.mul_(2)
        layer.bias.add_(1)
    x = np.random.default_rng(0).standard_normal((3, 2, 4), dtype=np.float32)
    mean, variance = x.mean((1, 2), keepdims=True), x.var((1, 2), keepdims=True)
    out = layer(stowgrad.from_numpy(x)).detach().numpy()
    np.testing.assert_allclose(out, (x - mean) / np.sqrt(variance + 1e-3) * 2 + 1, rtol=1e-4, atol=1e-5)


def test_layer_norm_without_parameters():
    assert list(nn.LayerNorm(3, bias=False).state_dict()) == ["weight"]
    plain = nn.LayerNorm(3, elementwise_affine=False)
    assert plain.state_dict() == {}
    assert abs(plain(stowgrad.tensor([[1.0, 2.0, 6.0]])).numpy().mean()) < 1e-6
    with pytest.raises(RuntimeError, match="normalized_shape"):
        nn.LayerNorm(3)(stowgrad.ones(2, 4))


def test_activations():
    x = np.array([-2.0, -0.5, 0.0, 0.5, 2.0], np.float32)
    cdf = np.array([0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x])
    tanh = 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    t = stowgrad.from_numpy(x)
    np.testing.assert_allclose(nn.GELU()(t).numpy(), x * cdf, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(nn.GELU("tanh")(t).numpy(), x * tanh, rtol=1e-5, atol=1e-6)
    assert nn.ReLU()(t).numpy().tolist() == [0, 0, 0, 0.5, 2]
    with pytest.raises(RuntimeError, match="none or tanh"):
        nn.GELU("fast")(t)


def test_dropout():
    stowgrad.manual_seed(0)
    x = stowgrad.ones(10_000, requires_grad=True)
    layer = nn.Dropout(0.25)
    out = layer(x)
    kept = out.detach().numpy() != 0
    assert kept.mean() == pytest.approx(0.75, abs=0.02)
    np.testing.assert_allclose(out.detach().numpy()[kept], 1 / 0.75)
    out.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), out.detach().numpy())
    assert layer.eval()(x) is x
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="between 0 and 1"):
            nn.Dropout(p)


def test_losses():
    logits = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    target = np.array([0, 2, -100, 1])
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    rows = np.array([-log_p[0, 0], -log_p[1, 2], 0, -log_p[3, 1]])
    pair = stowgrad.from_numpy(logits), stowgrad.from_numpy(target)
    assert nn.CrossEntropyLoss()(*pair).item() == pytest.approx(rows.sum() / 3, rel=1e-5)
    assert nn.CrossEntropyLoss(reduction="sum")(*pair).item() == pytest.approx(rows.sum(), rel=1e-5)
    np.testing.assert_allclose(nn.CrossEntropyLoss(reduction="none")(*pair).numpy(), rows, rtol=1e-5)
    a, b = stowgrad.tensor([1.0, 2.0]), stowgrad.tensor([0.0, 4.0])
    assert nn.MSELoss()(a, b).item() == 2.5
    assert nn.MSELoss(reduction="sum")(a, b).item() == 5
    assert nn.MSELoss(reduction="none")(a, b).numpy().tolist() == [1, 4]
    for loss in (nn.MSELoss, nn.CrossEntropyLoss):
        with pytest.raises(ValueError, match="not a valid value for reduction"):
            loss(reduction="max")
