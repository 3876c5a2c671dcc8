"""Functions against NumPy, their shapes, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.nn import functional as F

RNG = np.random.default_rng(0)


def random(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def tensors(*arrays: np.ndarray, requires_grad: bool = True) -> list[Any]:
    return [stowgrad.tensor(array, requires_grad=requires_grad) for array in arrays]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# -- attention ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (2, 1, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_for_any_leading_dimensions(leading: tuple[int, ...], causal: bool):
    q, k, v = random(*leading, 5, 4), random(*leading, 5, 4), random(*leading, 5, 6)
    scores = q @ np.swapaxes(k, -1, -2) / 2
    if causal:
        scores = np.where(np.tri(5, dtype=bool), scores, -np.inf)
    out = F.scaled_dot_product_attention(*tensors(q, k, v), is_causal=causal)
    assert out.shape == (*leading, 5, 6)
    np.testing.assert_allclose(out.detach().numpy(), softmax(scores) @ v, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("shape", [(5, 7), (1, 5, 7), (2, 3, 5, 7)])
def test_attention_masks_broadcast(shape: tuple[int, ...]):
    q, k, v = random(2, 3, 5, 4), random(2, 3, 7, 4), random(2, 3, 7, 4)
    bias = random(*shape)
    keep = bias > -1
    keep[..., 0] = True
    args = tensors(q, k, v)
    scores = q @ np.swapaxes(k, -1, -2) * 0.3
    added = F.scaled_dot_product_attention(*args, attn_mask=stowgrad.tensor(bias), scale=0.3)
    np.testing.assert_allclose(added.detach().numpy(), softmax(scores + bias) @ v, rtol=1e-9, atol=1e-12)
    masked = F.scaled_dot_product_attention(*args, attn_mask=stowgrad.tensor(keep), scale=0.3)
    expected = softmax(np.where(keep, scores, -np.inf)) @ v
    np.testing.assert_allclose(masked.detach().numpy(), expected, rtol=1e-9, atol=1e-12)


def test_attention_with_dropout_has_the_right_mean_and_gradients():
    stowgrad.manual_seed(0)
    q, k, v = tensors(random(1, 4, 2), random(1, 4, 2), random(1, 4, 2))
    plain = F.scaled_dot_product_attention(q, k, v, is_causal=True).detach().numpy()
    draws = [F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=True) for _ in range(2000)]
    mean = np.mean([draw.detach().numpy() for draw in draws], 0)
    np.testing.assert_allclose(mean, plain, atol=0.1)
    draws[0].sum().backward()
    assert np.isfinite(q.grad.numpy()).all()


def test_attention_refuses():
    q, k, v = tensors(random(1, 4, 2), random(1, 4, 2), random(1, 4, 2))
    mask = stowgrad.ones(4, 4, dtype=stowgrad.bool)
    with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal"):
        F.scaled_dot_product_attention(q, k, v, mask, is_causal=True)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        F.scaled_dot_product_attention(q, k, v, dropout_p=2.0)
    with pytest.raises(RuntimeError, match="at least 2 dimensions"):
        F.scaled_dot_product_attention(q[0, 0], k, v)
    with pytest.raises(RuntimeError, match="scaled_dot_product_attention"):
        F.scaled_dot_product_attention(q, tensors(random(1, 4, 3))[0], v)


# -- losses ------------------------------------------------------------------------------------------------------------


def losses_of(logits: np.ndarray, target: np.ndarray) -> np.ndarray:
    return -np.log(np.take_along_axis(softmax(logits), target[..., None], -1))[..., 0]


@pytest.mark.parametrize("shape", [(), (4,), (4, 2), (4, 2, 3)])
def test_cross_entropy_for_all_its_shapes(shape: tuple[int, ...]):
    logits, target = random(*shape, 5), RNG.integers(0, 5, shape)
    expected = losses_of(logits, target)
    classes_second = np.moveaxis(logits, -1, 1) if len(shape) > 0 else logits
    given = stowgrad.tensor(np.ascontiguousarray(classes_second), requires_grad=True)
    loss = F.cross_entropy(given, stowgrad.tensor(target))
    assert loss.item() == pytest.approx(expected.mean())
    rows = F.cross_entropy(given, stowgrad.tensor(target), reduction="none")
    np.testing.assert_allclose(rows.detach().numpy(), expected)
    loss.backward()
    gradient = (softmax(logits) - np.eye(5)[target]) / max(target.size, 1)
    np.testing.assert_allclose(given.grad.numpy(), np.moveaxis(gradient, -1, 1) if shape else gradient, atol=1e-12)


def test_linear_cross_entropy_is_cross_entropy_of_linear():
    x, w, b = random(2, 6, 3), random(7, 3), random(7)
    target = RNG.integers(0, 7, (2, 6))
    target[0, 1] = -100
    for reduction in ("mean", "sum", "none"):
        one, two = tensors(x, w, b), tensors(x, w, b)
        fused = F.linear_cross_entropy(one[0], one[1], stowgrad.tensor(target), linear_bias=one[2], reduction=reduction)
        logits = F.linear(two[0], two[1], two[2]).reshape(12, 7)
        plain = F.cross_entropy(logits, stowgrad.tensor(target.reshape(-1)), reduction=reduction)
        np.testing.assert_allclose(fused.detach().numpy().reshape(-1), plain.detach().numpy().reshape(-1))
        fused.sum().backward()
        plain.sum().backward()
        for a, b_ in zip(one, two, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b_.grad.numpy(), rtol=1e-8, atol=1e-10)


def test_the_mean_of_no_targets_is_nan():
    logits = stowgrad.ones(2, 3)
    target = stowgrad.tensor([-100, -100])
    assert math.isnan(F.cross_entropy(logits, target).item())
    assert F.cross_entropy(logits, target, reduction="sum").item() == 0


def test_losses_refuse():
    logits, target = stowgrad.ones(2, 3), stowgrad.tensor([0, 1])
    with pytest.raises(ValueError, match="reduction"):
        F.cross_entropy(logits, target, reduction="max")
    with pytest.raises(ValueError, match="batch_size"):
        F.cross_entropy(logits, stowgrad.tensor([0, 1, 2]))
    with pytest.raises(IndexError, match="out of bounds"):
        F.cross_entropy(logits, stowgrad.tensor([0, 3]))
    with pytest.raises(RuntimeError, match="integer"):
        F.cross_entropy(logits, stowgrad.ones(2))
    with pytest.raises(RuntimeError, match="class"):
        F.cross_entropy(stowgrad.ones(2, 3, 4), stowgrad.tensor([[0], [1]]))
    with pytest.raises(ValueError, match="target"):
        F.linear_cross_entropy(logits, stowgrad.ones(4, 3), stowgrad.tensor([0]))
    with pytest.raises(TypeError, match="'input' must be Tensor, not ndarray"):
        F.cross_entropy(np.ones((2, 3)), target)  # type: ignore[arg-type]


def test_mse_warns_before_it_broadcasts():
    with pytest.warns(UserWarning, match="different to the input size"):
        loss = F.mse_loss(stowgrad.ones(2, 3), stowgrad.zeros(3))
    assert loss.item() == 1


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_softmax_and_log_softmax():
    x = random(2, 3)
    np.testing.assert_allclose(F.softmax(stowgrad.tensor(x), dim=-1).numpy(), softmax(x))
    np.testing.assert_allclose(F.log_softmax(stowgrad.tensor(x), 0).numpy(), np.log(softmax(x.T).T))
    assert F.softmax(stowgrad.tensor(x), 1, dtype=stowgrad.float32).dtype == stowgrad.float32
    with pytest.raises(IndexError, match=r"(?i)dimension out of range"):
        F.softmax(stowgrad.tensor(x), 2)


def test_shapes_and_types_are_checked():
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        F.linear(stowgrad.ones(2, 3), stowgrad.ones(4, 2))
    with pytest.raises(TypeError, match="tuple of ints"):
        F.layer_norm(stowgrad.ones(2, 3), 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="within num_embeddings"):
        F.embedding(stowgrad.tensor([0]), stowgrad.ones(2, 2), padding_idx=2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.dropout(stowgrad.ones(2), -0.5)


def test_dropout_draws_from_a_generator():
    x = stowgrad.ones(64)
    generator = stowgrad.Generator().manual_seed(3)
    first = F.dropout(x, 0.5, generator=generator).numpy()
    second = F.dropout(x, 0.5, generator=generator).numpy()
    again = F.dropout(x, 0.5, generator=generator.manual_seed(3)).numpy()
    np.testing.assert_array_equal(first, again)
    assert (first != second).any()
    assert F.dropout(x, 0.0) is x


def test_padding_stays_without_gradient_in_second_derivatives():
    weight = stowgrad.tensor(random(3, 2), requires_grad=True)
    out = F.embedding(stowgrad.tensor([0, 1, 1]), weight, padding_idx=1)
    (grad,) = stowgrad.autograd.grad((out * out).sum(), weight, create_graph=True)
    np.testing.assert_allclose(grad.detach().numpy()[1:], 0)
    grad.sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), [[2, 2], [0, 0], [0, 0]])
