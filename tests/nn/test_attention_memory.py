"""What attention keeps and needs: never a matrix of all scores; and what dropout draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import memory
from stowgrad.nn import functional as F

T, D = 1400, 8
SCORES = T * T * 4  # bytes of the scores of one head


def leaf(*shape: int) -> Any:
    return stowgrad.randn(*shape, requires_grad=True)


USES: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "dropout": {"dropout_p": 0.2},
    "causal, dropout": {"is_causal": True, "dropout_p": 0.2},
    "shared heads": {"enable_gqa": True},
    "mask of the keys": {"mask": (1, 1, 1, T)},
    "mask of the rows": {"mask": (4, T, 1)},
}


@pytest.mark.parametrize("use", USES)
def test_no_matrix_of_scores_in_either_direction(use: str, memprof: Any):
    options = dict(USES[use])
    heads = 2 if "enable_gqa" in options else 4
    q, k, v = leaf(1, 4, T, D), leaf(1, heads, T, D), leaf(1, heads, T, D)
    mask = options.pop("mask", None)
    if mask is not None:
        options["attn_mask"] = leaf(*mask)
    with memprof(use, budget=4 * SCORES // 3):
        F.scaled_dot_product_attention(q, k, v, **options).sum().backward()
    if mask is not None:
        assert options["attn_mask"].grad.shape == mask


def test_what_is_kept_grows_with_the_length():
    used = []
    for length in (256, 512):
        q, k, v = (leaf(1, 4, length, D) for _ in range(3))
        before = memory.pool().used_bytes()
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.2)
        used.append(memory.pool().used_bytes() - before)
        del out
    assert used[0] >= 4 * 256 * (D + 1) * 4
    assert used[1] <= 2.2 * used[0]


def test_a_graph_of_shared_heads_does_not_repeat_them():
    q, k, v = leaf(1, 8, 256, D), leaf(1, 1, 256, D), leaf(1, 1, 256, D)
    before = memory.pool().used_bytes()
    out = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    assert memory.pool().used_bytes() - before < 1.3 * (out.nbytes + 8 * 256 * 4)


def test_dropout_follows_the_seed_and_the_generator():
    q, k, v = leaf(2, 4, 6, D), leaf(2, 4, 7, D), leaf(2, 4, 7, D)

    def run(**options: Any) -> np.ndarray[Any, Any]:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, **options).detach().numpy().copy()

    generator = stowgrad.Generator().manual_seed(4)
    first = run(generator=generator)
    second = run(generator=generator)
    again = run(generator=generator.manual_seed(4))
    np.testing.assert_array_equal(first, again)
    assert (first != second).any()
    stowgrad.manual_seed(1)
    one = run()
    stowgrad.manual_seed(1)
    np.testing.assert_array_equal(one, run())


def test_gradients_are_those_of_the_weights_that_were_kept():
    q, k, v = leaf(1, 1, 5, D), leaf(1, 1, 6, D), leaf(1, 1, 6, 6)
    generator = stowgrad.Generator()
    with stowgrad.no_grad():
        identity = stowgrad.tensor(np.eye(6, dtype=np.float32)[None, None])
        generator.manual_seed(9)
        weights = F.scaled_dot_product_attention(q, k, identity, dropout_p=0.5, generator=generator)
    generator.manual_seed(9)
    F.scaled_dot_product_attention(q, k, v, dropout_p=0.5, generator=generator).sum().backward()
    expected = weights.numpy().sum(-2)[..., None] * np.ones(6)
    np.testing.assert_allclose(v.grad.numpy(), expected, rtol=1e-5, atol=1e-6)
    assert (weights.numpy() == 0).any()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(dtype: str):
    q, k, v = (leaf(2, 2, 30, D) for _ in range(3))
    mask = stowgrad.randn(30, 30)
    half = [x.detach().to(getattr(stowgrad, dtype)).requires_grad_() for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*half, attn_mask=mask.to(half[0].dtype))
    out.sum().backward()
    wide = [x.detach().float().requires_grad_() for x in half]
    right = F.scaled_dot_product_attention(*wide, attn_mask=mask.to(half[0].dtype).float())
    right.sum().backward()
    bound = 2**-9 if dtype == "float16" else 2**-6
    assert out.dtype == half[0].dtype
    np.testing.assert_allclose(out.detach().float().numpy(), right.detach().numpy(), rtol=bound, atol=bound)
    for mine, theirs in zip(half, wide, strict=True):
        assert mine.grad.dtype == mine.dtype
        scale = float(theirs.grad.abs().max())
        np.testing.assert_allclose(mine.grad.float().numpy(), theirs.grad.numpy(), atol=2 * bound * scale)


def test_what_is_refused():
    q = leaf(2, 4, 3, D)
    for options, message in [
        ({"attn_mask": stowgrad.zeros(3, 4)}, "does not broadcast"),
        ({"attn_mask": stowgrad.zeros(3, 3, dtype=stowgrad.int64)}, "attn_mask dtype"),
        ({"dropout_p": -0.1}, "between 0 and 1"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            F.scaled_dot_product_attention(q, q, q, **options)
    with pytest.raises(RuntimeError, match="must divide"):
        F.scaled_dot_product_attention(q, leaf(2, 3, 3, D), leaf(2, 3, 3, D), enable_gqa=True)
