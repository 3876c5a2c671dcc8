"""Elements by number along an axis, against loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array, strided_like

Rng = np.random.Generator
SameOnThreads = Callable[[Callable[[], Any]], Any]
SHAPES = [(7,), (4, 5), (3, 4, 5), (200, 300), (3, 100_000)]
over_axes = pytest.mark.parametrize(
    ("shape", "axis"), [(shape, axis) for shape in SHAPES for axis in range(len(shape))]
)
FOLDS = {"prod": np.multiply, "amin": np.minimum, "amax": np.maximum}


def numbers(rng: Rng, shape: tuple[int, ...], axis: int) -> Array:
    """Numbers along an axis: more of them than the axis is long, fewer elsewhere."""
    sizes = tuple(size + 2 if dim == axis else max(1, size - 1) for dim, size in enumerate(shape))
    return rng.integers(0, shape[axis], sizes)


def places(index: Array, axis: int) -> tuple[Array, ...]:
    """Where numbers along an axis point."""
    found = list(np.indices(index.shape))
    found[axis] = index
    return tuple(found)


@over_axes
def test_gather_along(shape: tuple[int, ...], axis: int, rng: Rng) -> None:
    values, index = rng.standard_normal(shape), numbers(rng, shape, axis)
    for x in strided_like(values)[: 4 if values.size < 1000 else 2]:
        out = np.empty(index.shape)
        kernels.gather_along(x, index, out, axis=axis)
        np.testing.assert_array_equal(out, values[places(index, axis)])


@over_axes
def test_scatter_along(shape: tuple[int, ...], axis: int, rng: Rng) -> None:
    out, index = rng.standard_normal(shape), numbers(rng, shape, axis)
    src, expected = rng.standard_normal(index.shape), out.copy()
    expected[places(index, axis)] = src
    kernels.scatter_along(out, index, src, axis=axis)
    np.testing.assert_array_equal(out, expected)
    kernels.scatter_along(out, index, 2.5, axis=axis)
    assert (out[places(index, axis)] == 2.5).all()


@over_axes
def test_scatter_add_along(shape: tuple[int, ...], axis: int, rng: Rng, same_on_threads: SameOnThreads) -> None:
    x, index = rng.standard_normal(shape), numbers(rng, shape, axis)
    src = rng.standard_normal(index.shape)

    def run() -> Array:
        out = x.copy()
        kernels.scatter_add_along(out, index, src, axis=axis)
        return out

    expected = x.copy()
    np.add.at(expected, places(index, axis), src)
    np.testing.assert_allclose(same_on_threads(lambda: [run()])[0], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["int64", "complex128", "float32", "bool"])
def test_sums_keep_the_dtype(dtype: str, rng: Rng) -> None:
    x, index = rng.integers(0, 2, (4, 5)).astype(dtype), rng.integers(0, 4, (6, 5))
    src = rng.integers(0, 2, (6, 5)).astype(dtype)
    expected = x.copy()
    np.add.at(expected, places(index, 0), src)
    kernels.scatter_add_along(x, index, src, axis=0)
    np.testing.assert_array_equal(x, expected)


def test_large_integers_are_added_exactly() -> None:
    out = np.array([1 << 60, 0])
    kernels.scatter_add_along(out, np.array([0, 0]), np.array([1, 2]), axis=0)
    assert out.tolist() == [(1 << 60) + 3, 0]


@pytest.mark.parametrize("fold", FOLDS)
@over_axes
def test_scatter_fold_along(shape: tuple[int, ...], axis: int, fold: str, rng: Rng) -> None:
    values, index = rng.uniform(0.9, 1.1, shape), numbers(rng, shape, axis)
    src, expected = rng.uniform(0.9, 1.1, index.shape), values.copy()
    FOLDS[fold].at(expected, places(index, axis), src)
    for out in strided_like(values)[: 4 if values.size < 1000 else 1]:
        changed = out if out is not values else values.copy()
        kernels.scatter_fold_along(changed, index, src, axis=axis, fold=fold)
        np.testing.assert_allclose(changed, expected, rtol=1e-10)


@over_axes
def test_rows(shape: tuple[int, ...], axis: int, rng: Rng) -> None:
    x, index = rng.standard_normal(shape), rng.integers(-shape[axis], shape[axis], 9)
    sizes = (*shape[:axis], 9, *shape[axis + 1 :])
    src, where = rng.standard_normal(sizes), (*[slice(None)] * axis, index)
    out = np.empty(sizes)
    kernels.take_rows(x, index, out, axis=axis)
    np.testing.assert_array_equal(out, x[where])
    added = x.copy()
    np.add.at(added, where, -2 * src)
    for given in strided_like(src)[: 4 if src.size < 1000 else 1]:
        out = np.array(x, order="F")
        kernels.index_add(out, index, given, axis=axis, alpha=-2)
        np.testing.assert_allclose(out, added, rtol=1e-12, atol=1e-12)
    put = x.copy()
    kernels.index_put_rows(put, index, src, axis=axis)
    x[where] = src
    np.testing.assert_array_equal(put, x)


MANY_ROWS = [
    (50, 3, 600_000), (3, 2000, 700), (1, 1, 5), (4, 0, 3),
    (30_000, 3, 90_000), (300, 100, 200), (300, 100, 900), (300, 101, 900),
    (40, 8, 20), (40, 600, 90), (40, 40_000, 90),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "columns", "count"), MANY_ROWS)
def test_many_rows(rows: int, columns: int, count: int, rng: Rng, same_on_threads: SameOnThreads) -> None:
    index, src = rng.integers(0, rows, count), rng.standard_normal((count, columns))

    def run() -> list[Array]:
        out = np.zeros((rows, columns))
        kernels.index_add(out, index, src, axis=0)
        return [out]

    expected = np.stack([src[index == row].sum(0) for row in range(rows)])
    np.testing.assert_allclose(same_on_threads(run)[0], expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("columns", [3, 100, 600])
@pytest.mark.parametrize("dtype", ["float32", "int64", "complex128"])
def test_rows_are_added_in_their_dtype(dtype: str, columns: int, rng: Rng) -> None:
    index, src = np.array([1, -1, 1, 0, 1]), rng.integers(-9, 9, (2, 5, columns)).astype(dtype)
    for batch in (slice(0, 1), slice(0, 2)):
        out = np.ones((2, 4, columns), dtype)[batch]
        expected = out.copy()
        np.add.at(expected, (slice(None), index), 3 * src[batch])
        kernels.index_add(out, index, src[batch], axis=1, alpha=3)
        np.testing.assert_array_equal(out, expected)


def test_sums_of_halves_are_computed_in_floats() -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16):
        out = np.zeros((1, 2), dtype)
        kernels.index_add(out, np.zeros(600, np.int64), np.ones((600, 2), dtype), axis=0)
        assert out.astype(float).tolist() == [[600.0, 600.0]]
        kernels.scatter_add_along(out, np.zeros((300, 2), np.int64), np.ones((300, 2), dtype), axis=0)
        assert out.astype(float).tolist() == [[float(dtype(900.0))] * 2]


INDICES: dict[str, tuple[tuple[int, ...], list[Array], tuple[int, ...]]] = {
    "one": ((6, 4), [np.array([[0, -1], [3, 3]])], (1,)),
    "broadcast": ((6, 4, 3), [np.array([[5], [0], [5]]), np.array([1, -1])], (1, 1)),
    "two as one": ((3, 4, 2), [np.array([11, 3, 11])], (2,)),
    "mixed": ((2, 3, 4, 5), [np.array([1, 0, 1]), np.array([0, 11, 7])], (1, 2)),
    "all": ((2, 3), [np.array(1), np.array([0, 2])], (1, 1)),
    "no dimensions": ((3, 4), [np.array(1), np.array(-1)], (1, 1)),
    "nothing": ((3, 4), [np.array([], np.int64)], (1,)),
    "many": ((300, 200, 4), [np.arange(300)[:, None], np.arange(1000)[None] % 200], (1, 1)),
}


@pytest.mark.parametrize("name", INDICES)
def test_several_indices(name: str, rng: Rng, same_on_threads: SameOnThreads) -> None:
    shape, indices, covers = INDICES[name]
    dims = sum(covers)
    # NumPy indexes along what counts as one dimension.
    merged, rest = list(shape[:dims]), shape[dims:]
    for place, count in enumerate(covers):
        merged[place : place + count] = [int(np.prod(merged[place : place + count]))]
    values, key = rng.standard_normal(shape), tuple(indices)
    selected = values.reshape(*merged, *rest)[key]
    given = rng.standard_normal((*selected.shape[: selected.ndim - len(rest)], *[1] * len(rest)))
    added, put = values.copy(), values.copy()
    np.add.at(added.reshape(*merged, *rest), key, given)
    put.reshape(*merged, *rest)[key] = 2.5
    for x in strided_like(values)[: 4 if values.size < 1000 else 2]:
        out = np.empty(selected.shape)
        kernels.take_at(x, indices, out, covers=covers)
        np.testing.assert_array_equal(out, selected)
        changed = np.array(x)
        kernels.put_at(changed, indices, 2.5, covers=covers)
        np.testing.assert_array_equal(changed, put)

        def add(x: Array = x) -> list[Array]:
            changed = np.array(x)
            kernels.add_at(changed, indices, given, covers=covers)
            return [changed]

        np.testing.assert_allclose(same_on_threads(add)[0], added, rtol=1e-12, atol=1e-12)


def test_what_is_written_by_mask_and_where_it_is_not_0() -> None:
    x = np.arange(6.0).reshape(2, 3)
    mask = np.broadcast_to([True, False, True], (2, 3))
    kernels.masked_put(x, mask, np.array([7.0, 8.0, 9.0, 10.0, 11.0]))
    assert x.tolist() == [[7.0, 1.0, 8.0], [9.0, 4.0, 10.0]]
    with pytest.raises(RuntimeError, match="at least 4 elements, got 3"):
        kernels.masked_put(x, mask, np.zeros(3))
    found = np.empty((2, 2), np.int64)
    kernels.nonzero(np.array([[0.0, 2.0], [3.0, 0.0]]), found)
    assert found.tolist() == [[0, 1], [1, 0]]
