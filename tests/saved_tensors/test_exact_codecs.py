"""Narrow integers, constants, and a bit mask with what is not zero: every bit comes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import stowgrad
from stowgrad.kernels import get_num_threads, set_num_threads
from stowgrad.memory import CPU, pool
from stowgrad.saved_tensors import Compress
from stowgrad.saved_tensors.codecs import Constant, NarrowIntegers, NonZeros, PackBits

from .codec_support import SITE, round_trip
from .support import leased, views


class Eager(NonZeros):
    """NonZeros whose sample always says yes."""

    def encode(self, array, memory, site):
        self._answers.pays(array, site, lambda sample: True)
        return super().encode(array, memory, site)


@pytest.mark.parametrize("stage", [NarrowIntegers(), Constant(), Eager()], ids=lambda stage: stage.name)
@given(view=views())
def test_every_bit_comes_back(stage, view):
    if not view.size:
        return
    before = view.tobytes()
    payload, out = round_trip(stage, view)
    assert view.tobytes() == before
    if payload is not None:
        assert out.tobytes() == before
        assert payload.exact


# -- narrow integers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "width"),
    [(0, 255, 1), (-3, 252, 1), (0, 256, 2), (10**12, 10**12 + 65535, 2), (-(2**31), 2**31 - 1, 4)],
)
def test_integers_take_what_their_range_needs(low, high, width):
    array = leased(np.array([low, high] * 500, np.int64))
    payload, out = round_trip(NarrowIntegers(), array)
    assert payload.nbytes == 1000 * width
    assert out.tobytes() == array.tobytes()


@given(
    array=hnp.arrays(
        st.sampled_from([np.int16, np.int32, np.int64, np.uint16, np.uint32, np.uint64]), st.integers(1, 50)
    )
)
def test_integers_of_any_value(array):
    _, out = round_trip(NarrowIntegers(), leased(array))
    assert out is None or out.tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_, np.float32])
def test_what_is_narrow_or_no_integer_is_left_alone(dtype):
    assert round_trip(NarrowIntegers(), leased(np.ones(100, dtype))) == (None, None)


def test_integers_of_full_width_are_left_alone():
    array = leased(np.array([-(2**63), 2**63 - 1], np.int64))
    assert round_trip(NarrowIntegers(), array) == (None, None)


# -- constants ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -0.0, 1.5, np.nan, np.inf, 1e-42])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_takes_one_element(value, dtype):
    array = leased(np.full((700, 700), value, dtype))
    payload, out = round_trip(Constant(), array)
    assert payload.nbytes == array.itemsize
    assert out.tobytes() == array.tobytes()


@pytest.mark.parametrize("place", [0, 1, 350_000, -1])
def test_one_other_element_is_enough_to_leave_it_alone(place):
    array = np.zeros(700_000, np.float32)
    array[place] = 1.0
    assert round_trip(Constant(), leased(array)) == (None, None)


def test_zeros_of_both_signs_are_no_constant():
    array = np.zeros(100, np.float32)
    array[50] = -0.0
    assert round_trip(Constant(), leased(array)) == (None, None)


# -- bit mask and non-zeros --------------------------------------------------------------------------------------------


def sparse(shape, zeros, dtype=np.float32, seed=0):
    """Numbers of both signs, some of them zero: +0.0, all of whose bits are."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) >= zeros, 10 * rng.standard_normal(shape), 0.0).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
@pytest.mark.parametrize("size", [1, 7, 9, (1 << 18) + 3, 600_001])
def test_zeros_take_a_bit(dtype, size):
    array = leased(sparse(size, 0.85, dtype))
    payload, out = round_trip(Eager(), array)
    if payload is not None:
        assert payload.nbytes == -(-size // 8) + np.count_nonzero(array) * array.itemsize
        assert out.tobytes() == array.tobytes()


def test_minus_zero_nan_and_infinity_are_kept():
    array = np.zeros(10_000, np.float32)
    array[:6] = [-0.0, np.nan, np.inf, -np.inf, 1e-42, 3.0]
    _, out = round_trip(NonZeros(), leased(array))
    assert out.tobytes() == array.tobytes()


def test_dense_numbers_are_left_alone():
    assert round_trip(NonZeros(), leased(sparse(100_000, 0.2))) == (None, None)


def test_a_sample_that_misleads_costs_nothing_but_time():
    array = np.ones(1 << 20, np.float32)
    array[: 1 << 14] = array[-(1 << 14) :] = 0.0
    step = ((1 << 20) - (1 << 12)) // 3
    for at in (step, 2 * step):
        array[at : at + (1 << 12)] = 0.0
    array = leased(array)
    before = pool(CPU).bytes_by_category()["saved_packed"]
    assert round_trip(NonZeros(), array) == (None, None)
    assert pool(CPU).bytes_by_category()["saved_packed"] == before


# -- all of them -------------------------------------------------------------------------------------------------------


def several_tiles():
    rng = np.random.default_rng(3)
    return [
        (PackBits(), rng.random((1900, 1300)) < 0.3),
        (Constant(), np.full((700, 900), 2.5)),
        (NarrowIntegers(), rng.integers(-100, 100, (700, 900))),
        (Eager(), sparse((700, 900), 0.7)),
    ]


@pytest.mark.parametrize(("stage", "values"), several_tiles(), ids=lambda value: getattr(value, "name", ""))
def test_what_is_packed_does_not_depend_on_threads_or_strides(stage, values):
    before, found = get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            for array in (leased(values), leased(values.T).T, leased(np.repeat(values, 2, 1))[:, ::2]):
                encoded = stage.encode(array, pool(CPU), SITE)
                assert encoded is not None
                found.append([buffer.tobytes() for buffer in encoded[0]])
                out = leased(np.zeros(values.shape, values.dtype))
                stage.decode(encoded[0], out, encoded[1])
                assert out.tobytes() == values.tobytes()
    finally:
        set_num_threads(before)
    assert all(buffers == found[0] for buffers in found)


def test_auto_takes_the_codec_that_fits():
    policy = Compress()
    x = stowgrad.tensor(np.maximum(sparse((400, 400), 0.0), 8.0) - 8.0, requires_grad=True)
    with policy:
        y = x * x
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * x.detach().numpy())
    assert policy.statistics().live_resident_bytes == 0
    assert "bit mask and non-zeros" in policy.describe()


def test_an_unknown_codec_is_named():
    with pytest.raises(ValueError, match="unknown codec 'lz4'; expected 'auto' or one of 'packbits', 'constant'"):
        Compress("lz4")
