"""float16 and quantized values: the stated bounds hold, and random rounding is unbiased."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import stowgrad
from stowgrad.saved_tensors import Cast, Quantize
from stowgrad.saved_tensors.codecs import Float16, Quantizer

from .codec_support import round_trip
from .support import leased

DTYPES = [np.float32, np.float64]


def finite(dtype):
    """Finite numbers whose differences are finite, too."""
    most = float(np.finfo(dtype).max) / 4
    width = np.dtype(dtype).itemsize * 8
    return st.floats(-most, most, width=width, allow_nan=False, allow_infinity=False)


def arrays(dtype):
    return hnp.arrays(dtype, st.integers(1, 700), elements=finite(dtype), fill=st.nothing())


# -- float16 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_scaled_float16_keeps_its_bound(dtype, data):
    array = leased(data.draw(arrays(dtype)))
    payload, out = round_trip(Float16(), array)
    assert payload.nbytes == 2 * array.size
    assert not payload.exact
    exact, got = array.astype(np.float64), out.astype(np.float64)
    largest = np.abs(exact).max()
    # Where the dtype itself has no more bits, what is scaled back can't have them either.
    floor = float(np.finfo(dtype).smallest_subnormal)
    bound = np.where(np.abs(exact) >= largest * 2.0**-29, np.abs(exact) * 2.0**-11, largest * 2.0**-40) + floor
    assert (np.abs(got - exact) <= bound).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_float16_keeps_what_is_not_finite(value):
    array = leased(np.array([1e30, value, -3e-5], np.float32))
    _, out = round_trip(Float16(), array)
    np.testing.assert_equal(out[1], value)
    np.testing.assert_allclose(out[0], 1e30, rtol=2.0**-11)


def test_unscaled_float16_leaves_large_numbers_alone():
    assert round_trip(Float16(scaled=False), leased(np.array([65505.0], np.float32))) == (None, None)
    _, out = round_trip(Float16(scaled=False), leased(np.array([65504.0, 0.1], np.float32)))
    np.testing.assert_allclose(out, [65504.0, 0.1], rtol=2.0**-11)


@pytest.mark.parametrize("values", [[0.0, -0.0], [1e-42, -1e-45], [3.4e38, -3.4e38]])
def test_float16_of_extreme_arrays(values):
    array = leased(np.array(values, np.float32))
    _, out = round_trip(Float16(), array)
    np.testing.assert_allclose(out, array, rtol=2.0**-11, atol=1.5e-45)


# -- quantized ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_quantized_numbers_keep_their_bound(bits, dtype, data):
    array = leased(data.draw(arrays(dtype)))
    payload, out = round_trip(Quantizer(bits, group=64), array)
    for start in range(0, array.size, 64):
        group = array[start : start + 64].astype(np.float64)
        step = (group.max() - group.min()) / (2**bits - 1)
        rounding = 4 * np.finfo(dtype).eps * np.abs(group).max() + np.finfo(dtype).tiny * 2.0**bits
        assert (np.abs(out[start : start + 64] - group) <= step * (1 + 1e-5) + rounding).all()
    assert payload.nbytes == -(-array.size * bits // 8) + -(-array.size // 64) * 2 * array.itemsize


@pytest.mark.parametrize("bits", [8, 4])
def test_rounding_is_unbiased(bits):
    array = leased(np.random.default_rng(0).standard_normal(4096).astype(np.float32))
    codec, total, rounds = Quantizer(bits), np.zeros(4096), 400
    for _ in range(rounds):
        total += round_trip(codec, array)[1]
    groups = array.reshape(-1, 256)
    step = np.repeat((groups.max(1) - groups.min(1)) / (2**bits - 1), 256)
    # The mean of `rounds` errors, each below a step in size and at most half a step in deviation.
    assert (np.abs(total / rounds - array) <= 5 * 0.5 * step / np.sqrt(rounds)).all()
    assert abs((total / rounds - array).mean()) <= 5 * 0.5 * step.max() / np.sqrt(rounds * 4096)


def test_numbers_on_the_grid_are_exact():
    array = leased(np.arange(256, dtype=np.float32))
    np.testing.assert_allclose(round_trip(Quantizer(8), array)[1], array, atol=1e-4)


@pytest.mark.parametrize("value", [0.0, 7.25, -1e-42])
def test_a_constant_group_is_exact(value):
    array = leased(np.full(300, value, np.float32))
    np.testing.assert_array_equal(round_trip(Quantizer(4), array)[1], array)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_left_alone(value):
    assert round_trip(Quantizer(), leased(np.array([1.0, value] * 300, np.float32))) == (None, None)


def test_a_range_too_wide_for_the_dtype_is_left_alone():
    assert round_trip(Quantizer(), leased(np.array([3e38, -3e38] * 300, np.float32))) == (None, None)


def test_the_same_seed_rounds_alike():
    array = leased(np.random.default_rng(1).standard_normal(1000).astype(np.float32))
    first, second = (round_trip(Quantizer(seed=5), array)[1] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_the_generator_is_private():
    stowgrad.manual_seed(0)
    expected = stowgrad.rand(3).tolist()
    stowgrad.manual_seed(0)
    round_trip(Quantizer(), leased(np.random.default_rng(1).standard_normal(1000).astype(np.float32)))
    assert stowgrad.rand(3).tolist() == expected


def test_integers_are_left_alone():
    for stage in (Float16(), Quantizer()):
        assert round_trip(stage, leased(np.arange(1000))) == (None, None)


# -- the policies ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "ratio", "error"),
    [(Cast("float16"), 0.5, 1e-3), (Quantize(8), 0.27, 0.02), (Quantize(4), 0.14, 0.3)],
    ids=["float16", "int8", "int4"],
)
def test_gradients_are_near(policy, ratio, error):
    x = stowgrad.tensor(np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32), requires_grad=True)
    with policy:
        y = x * x
        assert policy.statistics().resident_bytes <= ratio * x._array.nbytes
    y.sum().backward()
    far = np.linalg.norm(x.grad.numpy() - 2 * x.detach().numpy()) / np.linalg.norm(2 * x.detach().numpy())
    assert far <= error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantize(bits=3), "bits must be 8 or 4, got 3"),
        (lambda: Quantize(group=7), "group must be an even positive number, got 7"),
        (lambda: Cast("float8"), "unknown dtype 'float8'; expected 'bfloat16' or 'float16'"),
        (lambda: Cast("bfloat16", scaled=True), "leave `scaled` out"),
    ],
)
def test_bad_arguments_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
