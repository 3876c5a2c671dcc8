from __future__ import annotations

import operator
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import backend
from stowgrad.kernels.numpy_ import bits, marks

from .. import fake_cupy
from .support import strided_like

SHAPES = [(), (0,), (5,), (3, 7), (300, 1001), (400_001,)]
RELATIONS = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "not_equal": operator.ne,
    "not_less": lambda x, y: ~(x < y),
    "not_greater": lambda x, y: ~(x > y),
}


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """Few different numbers, some NaN: ties are common."""
    values = np.asarray(rng.integers(-2, 3, shape), dtype)
    return np.where(rng.random(shape) < 0.1, np.nan, values).astype(dtype)


def packed(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.full(bits.packed_size(int(np.prod(shape))), 0xA5, np.uint8)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_marks_of_a_relation(relation: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    x, y = drawn(rng, shape), drawn(rng, shape)
    expected = np.packbits(RELATIONS[relation](x, y).reshape(-1))
    for variant in strided_like(x):
        mask = packed(shape)
        marks.mark(variant, y, mask, shape=shape, relation=relation)
        np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize("first", [(1, 1001), (300, 1), (1,), ()])
def test_marks_of_operands_that_broadcast(first: tuple[int, ...], rng: np.random.Generator) -> None:
    x, y = drawn(rng, first), drawn(rng, (300, 1001))
    mask = packed((300, 1001))
    marks.mark(x, y, mask, shape=(300, 1001), relation="less_equal", or_nan=True)
    np.testing.assert_array_equal(mask, np.packbits((x <= y) | np.isnan(y)))
    marks.mark(y, 0.5, mask, shape=(300, 1001), relation="greater")
    np.testing.assert_array_equal(mask, np.packbits(y > 0.5))


@pytest.mark.parametrize(("low", "high"), [(-1, 1), (None, 1), (0, None)])
def test_marks_of_what_is_inside(low: float | None, high: float | None, rng: np.random.Generator) -> None:
    x = drawn(rng, (300, 1001))
    expected = (x >= (-np.inf if low is None else low)) & (x <= (np.inf if high is None else high))
    mask = packed(x.shape)
    marks.mark_inside(x, mask, low=low, high=high)
    np.testing.assert_array_equal(mask, np.packbits(expected))


def test_marks_of_what_is_finite() -> None:
    mask = np.zeros(1, np.uint8)
    marks.mark_finite(np.array([1.0, np.inf, np.nan, -np.inf, 0.0]), mask)
    np.testing.assert_array_equal(mask, np.packbits([1, 0, 0, 0, 1]))


def test_marks_of_what_lies_between() -> None:
    x = np.array([0.0, 0.5, 2.0, np.nan, 1.0, 0.0, 0.0])
    low, high = np.array([0.2, 0.2, 0.2, 0.2, 1.0, 3.0, 1.0]), np.array([1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0])
    kept, by_low = np.zeros(1, np.uint8), np.zeros(1, np.uint8)
    marks.mark_between(x, low, high, kept, by_low, shape=x.shape)
    np.testing.assert_array_equal(kept, np.packbits([0, 1, 0, 1, 1, 0, 1]))
    np.testing.assert_array_equal(by_low, np.packbits([1, 0, 0, 1, 0, 0, 1]))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_marks_let_through(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> None:
    x = rng.standard_normal(shape).astype(dtype)
    x[rng.random(shape) < 0.05] = np.inf
    own, other = rng.random(shape) < 0.5, rng.random(shape) < 0.5
    own_bits, other_bits = np.packbits(own.reshape(-1)), np.packbits(other.reshape(-1))
    zero, half = x.dtype.type(0), x.dtype.type(0.5)
    for variant in strided_like(x):
        for target in (np.empty_like(x), variant if variant.flags.c_contiguous else np.empty_like(x)):
            given = variant.copy() if target is variant else variant
            marks.keep_marked(given, own_bits, target)
            np.testing.assert_array_equal(target, np.where(own, x, zero))
            marks.keep_marked(x, own_bits, target, contrary=True)
            np.testing.assert_array_equal(target, np.where(own, zero, x))
            marks.share_marked(x, own_bits, other_bits, target)
            np.testing.assert_array_equal(target, np.where(own, np.where(other, x * half, x), zero))
            marks.turn_marked(x, own_bits, np.packbits((other & ~own).reshape(-1)), target)
            np.testing.assert_array_equal(target, np.where(own, x, np.where(other, -x, zero)))
            if target is variant:
                target[...] = given


@pytest.fixture(scope="module")
def cupy_() -> Iterator[ModuleType]:
    with fake_cupy.installed():
        yield backend("cuda")


def on_device(array: np.ndarray[Any, Any]) -> Any:
    import cupy

    made = cupy.empty(array.shape, array.dtype)
    made.set(np.ascontiguousarray(array))
    return made


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_kernels_on_cupy_set_the_same_bits(relation: str, cupy_: ModuleType, rng: np.random.Generator) -> None:
    x, y = drawn(rng, (5, 7)), drawn(rng, (7,))
    mask = on_device(packed((5, 7)))
    cupy_.mark(on_device(x), on_device(y), mask, shape=(5, 7), relation=relation)
    np.testing.assert_array_equal(mask.get(), np.packbits(RELATIONS[relation](x, y)))
