"""The form of the lossy codecs that runs on a device, with NumPy in CuPy's place; and what the tiles promise."""

from __future__ import annotations

import numpy as np
import pytest

from stowgrad.kernels import get_num_threads, set_num_threads
from stowgrad.memory import CPU, pool
from stowgrad.saved_tensors.codecs import BFloat16, Float16, NarrowIntegers, Quantizer, rounding

from .codec_support import SITE, round_trip
from .support import leased

ODD = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 1.2e-38, 3.4028234e38, -3.4028234e38, 1.0, -2.5, 65504.0, 1e-9]


def on_device(codec, array):
    encoded = codec.encode_on_device(np, array.reshape(-1), pool(CPU))
    if encoded is None:
        return None
    out = leased(np.zeros(array.size, array.dtype))
    codec.decode_on_device(np, encoded[0], out, encoded[1])
    return out.reshape(array.shape)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    for module in ("cast", "quantize"):
        monkeypatch.setattr(f"stowgrad.saved_tensors.codecs.{module}.CHUNK", 1 << 10)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("codec", [BFloat16(), Float16(), Float16(scaled=False)], ids=["bf16", "fp16", "unscaled"])
def test_rounding_is_that_of_the_host(codec, dtype):
    numbers = np.random.default_rng(0).standard_normal(5000).astype(dtype)
    for array in (numbers, numbers * dtype(1e20), np.array(ODD * 200, dtype), np.zeros(300, dtype)):
        array = leased(array)
        _, expected = round_trip(codec, array)
        got = on_device(codec, array)
        assert (got is None) == (expected is None)
        if got is not None:
            assert np.array_equal(got, expected, equal_nan=True)
            assert (np.signbit(got) == np.signbit(expected))[~np.isnan(got)].all()


def test_what_is_beyond_float32_is_left_alone():
    array = leased(np.array([1.0, 1e300]))
    assert on_device(BFloat16(), array) is None
    assert round_trip(BFloat16(), array) == (None, None)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("size", [1, 7, 256, 5001])
def test_quantized_numbers_keep_their_bound_on_a_device(bits, size):
    array = leased(np.random.default_rng(1).standard_normal(size).astype(np.float32))
    got = on_device(Quantizer(bits), array)
    for start in range(0, size, 256):
        part = array[start : start + 256]
        step = (part.max() - part.min()) / (2**bits - 1)
        assert (np.abs(got[start : start + 256] - part) <= step * (1 + 1e-5)).all()
    array[size // 2] = np.nan
    assert on_device(Quantizer(bits), array) is None


def test_quantized_numbers_are_unbiased_on_a_device():
    array = leased(np.random.default_rng(2).uniform(-1, 1, 512).astype(np.float32))
    codec = Quantizer(4)
    mean = np.mean([on_device(codec, array) for _ in range(2000)], axis=0)
    step = 2 / 15
    assert np.abs(mean - array).max() < 5 * step / 2 / np.sqrt(2000)


def test_results_do_not_depend_on_the_number_of_threads():
    array = leased(np.random.default_rng(0).standard_normal(700_001).astype(np.float32))
    before = get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            set_num_threads(threads)
            found.append([round_trip(make(), array)[1].tobytes() for make in (BFloat16, Float16, Quantizer)])
    finally:
        set_num_threads(before)
    assert found[0] == found[1] == found[2]


def test_views_with_gaps_take_the_same_tiles():
    array = leased(np.random.default_rng(0).standard_normal((1000, 900)).astype(np.float32))
    for make in (BFloat16, Float16, Quantizer):
        payload = make().encode(array[:, ::2], pool(CPU), SITE)
        dense = make().encode(np.ascontiguousarray(array[:, ::2]), pool(CPU), SITE)
        assert all(np.array_equal(a.view(np.uint8), b.view(np.uint8)) for a, b in zip(payload[0], dense[0]))


def test_the_halves_of_the_range_are_told_apart():
    rounded = rounding.bfloat16_bits(np, np.array([1.00390625, 1.01171875, np.nan], np.float32))
    assert rounded.tolist()[:2] == [0x3F80, 0x3F82]  # to even
    assert np.isnan(rounding.from_bfloat16_bits(rounded)[2])


def test_narrow_integers_of_the_whole_range():
    info = np.iinfo(np.int64)
    array = leased(np.array([info.min, info.max, 0]))
    assert round_trip(NarrowIntegers(), array) == (None, None)
