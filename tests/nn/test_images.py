"""What convolution, pooling and resizing keep for backward, and what goes together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowgrad
import stowgrad.nn.functional as F


def leaf(*sizes: int, needs: bool = True) -> Any:
    values = np.random.default_rng(5).standard_normal(sizes).astype("float32")
    return stowgrad.tensor(values, requires_grad=needs)


def saved(out: Any) -> list[tuple[tuple[int, ...], str]]:
    """Shape and dtype of what the node of a result keeps."""
    found = [value.array(out.grad_fn) for value in out.grad_fn.saved_variables if value is not None]
    return [(array.shape, str(array.dtype)) for array in found]


@pytest.mark.parametrize(
    ("needs_x", "needs_w", "kept"),
    [
        (True, True, [(2, 3, 8, 8), (4, 3, 3, 3)]),
        (True, False, [(4, 3, 3, 3)]),
        (False, True, [(2, 3, 8, 8)]),
    ],
)
def test_a_convolution_keeps_what_its_gradients_need(needs_x: bool, needs_w: bool, kept: Any) -> None:
    out = F.conv2d(leaf(2, 3, 8, 8, needs=needs_x), leaf(4, 3, 3, 3, needs=needs_w), padding=1)
    assert [shape for shape, _ in saved(out)] == kept


def test_a_bias_alone_keeps_nothing() -> None:
    bias = leaf(4)
    out = F.conv2d(leaf(2, 3, 8, 8, needs=False), leaf(4, 3, 3, 3, needs=False), bias)
    assert saved(out) == []
    out.sum().backward()
    assert bias.grad.tolist() == [72.0] * 4


@pytest.mark.parametrize(("kernel", "dtype"), [(2, "uint8"), (16, "uint8"), (17, "uint16")])
def test_max_pooling_keeps_places_in_the_smallest_type(kernel: int, dtype: str) -> None:
    out = F.max_pool2d(leaf(1, 2, 34, 34), kernel)
    assert saved(out) == [(tuple(out.shape), dtype)]


def test_adaptive_max_pooling_keeps_numbers_in_the_smallest_type() -> None:
    assert saved(F.adaptive_max_pool2d(leaf(1, 2, 16, 16), 5)) == [((1, 2, 5, 5), "uint8")]
    assert saved(F.adaptive_max_pool2d(leaf(1, 2, 17, 16), 5)) == [((1, 2, 5, 5), "uint16")]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.avg_pool2d(x, 3, 2, 1),
        lambda x: F.adaptive_avg_pool2d(x, 3),
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"),
        lambda x: F.unfold(x, 3),
    ],
)
def test_linear_maps_keep_nothing(function: Any) -> None:
    assert saved(function(leaf(1, 2, 8, 8))) == []


def test_sampling_keeps_the_image_only_for_the_places() -> None:
    x, grid = leaf(1, 2, 8, 8), leaf(1, 4, 5, 2)
    assert [shape for shape, _ in saved(F.grid_sample(x, grid))] == [(1, 2, 8, 8), (1, 4, 5, 2)]
    assert [shape for shape, _ in saved(F.grid_sample(x, grid.detach()))] == [(1, 4, 5, 2)]


def test_unpooling_puts_back_what_pooling_found() -> None:
    x = leaf(2, 3, 8, 8, needs=False)
    out, indices = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(out, indices, 2)
    chosen = back.numpy() != 0
    assert chosen.sum() == out.numel()
    np.testing.assert_array_equal(back.numpy()[chosen], x.numpy()[chosen])


def test_sampling_where_elements_lie_gives_them_back() -> None:
    x = leaf(2, 3, 5, 7, needs=False)
    same = stowgrad.tensor(np.tile(np.eye(2, 3), (2, 1, 1)).astype("float32"))
    for align_corners in (True, False):
        grid = F.affine_grid(same, (2, 3, 5, 7), align_corners)
        np.testing.assert_allclose(F.grid_sample(x, grid, align_corners=align_corners).numpy(), x.numpy(), atol=1e-5)


def test_folding_counts_how_often_windows_see_an_element() -> None:
    ones = stowgrad.ones(1, 2, 6, 7)
    seen = F.fold(F.unfold(ones, 3, padding=1), (6, 7), 3, padding=1).numpy()
    assert seen[0, 0, 2:-2, 2:-2].tolist() == [[9.0] * 3] * 2
    assert seen[0, 1, 0, 0] == 4.0


def test_training_never_holds_the_columns_of_a_batch(memprof: Any) -> None:
    x, w = leaf(16, 32, 64, 64), leaf(32, 32, 3, 3)
    whole = 9 * x.numel() * 4
    with memprof(budget=whole // 2):
        F.conv2d(x, w, padding=1).sum().backward()
