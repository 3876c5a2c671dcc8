from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stowgrad.kernels import get_num_threads
from stowgrad.memory import CPU, pool
from stowgrad.saved_tensors import Payload, Site
from stowgrad.saved_tensors.codecs import BFloat16, Compact, PackBits, Zstd
from stowgrad.saved_tensors.payload import restore

from .support import leased, views

SITE = Site("op", "self")


def round_trip(stage, array):
    """What a codec makes of an array and back, or None if it declines."""
    payload = stage.pack(Payload.of(array, CPU), SITE)
    if payload is None:
        return None, None
    out = leased(np.zeros(array.shape, array.dtype))
    restore(payload, out)
    return payload, out


class Eager(Zstd):
    """Zstd that believes every sample."""

    def _pays(self, array, compressor, site):
        return True


@pytest.mark.parametrize("stage", [PackBits(), Eager(), Compact()], ids=lambda stage: stage.name)
@given(view=views())
def test_exact_codecs_give_back_every_bit(stage, view):
    if not view.size:
        return
    before = view.tobytes()
    payload, out = round_trip(stage, view)
    assert view.tobytes() == before
    if payload is not None:
        assert out.tobytes() == before
        assert payload.exact


@pytest.mark.parametrize("size", [1, 7, 8, 9, (1 << 20) - 1, (1 << 20) + 3, (3 << 20) + 5])
def test_bools_take_a_bit_each(size):
    array = leased(np.random.default_rng(0).random(size) < 0.3)
    payload, out = round_trip(PackBits(), array)
    assert payload.nbytes == -(-size // 8)
    assert out.tobytes() == array.tobytes()


def test_packbits_takes_bools_only():
    for dtype in (np.uint8, np.float32, np.int64):
        assert PackBits().pack(Payload.of(leased(np.zeros(100, dtype)), CPU), SITE) is None


def test_packed_bits_of_a_view_with_gaps():
    array = leased(np.random.default_rng(0).random((3000, 900)) < 0.3)[::2, ::3].T
    _, out = round_trip(PackBits(), array)
    assert (out == array).all()


def sparse(shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return np.maximum(values - 1.0, 0)


def test_zstd_shrinks_zeros_and_declines_dense_floats():
    array = leased(sparse(1 << 20))
    payload, out = round_trip(Zstd(), array)
    assert payload.nbytes < array.nbytes / 2
    assert len(payload.buffers) == 4
    assert out.tobytes() == array.tobytes()
    dense = leased(np.random.default_rng(0).standard_normal(1 << 18).astype(np.float32))
    assert round_trip(Zstd(), dense) == (None, None)


def test_zstd_remembers_for_a_site_whether_it_pays():
    stage = Zstd()
    dense = leased(np.random.default_rng(0).standard_normal(1 << 15).astype(np.float32))
    zeros = leased(np.zeros(1 << 15, np.float32))
    here, there = Site("relu", "result"), Site("mul", "self")
    assert stage.pack(Payload.of(dense, CPU), here) is None
    assert stage.pack(Payload.of(zeros, CPU), here) is None  # remembered
    assert stage.pack(Payload.of(zeros, CPU), there) is not None
    results = [stage.pack(Payload.of(zeros, CPU), here) for _ in range(40)]
    assert results[-1] is not None  # asked again


def test_zstd_takes_back_what_the_sample_promised_wrongly():
    stage = Eager()
    dense = leased(np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8))
    before = pool("cpu").bytes_by_category()["saved_packed"]
    assert stage.pack(Payload.of(dense, CPU), SITE) is None
    assert pool("cpu").bytes_by_category()["saved_packed"] == before


def test_zstd_refuses_levels_that_do_not_exist():
    for level in (23, -8, 1.5, True):
        with pytest.raises(ValueError, match="level must be from -7 to 22"):
            Zstd(level)


def test_a_damaged_frame_is_an_error():
    import zstandard

    array = leased(sparse(1 << 18))
    payload = Zstd().pack(Payload.of(array, CPU), SITE)
    damaged = Payload.of(array, CPU).then(payload.undo[0].stage, (payload.buffers[0][:100],), CPU, [(1, None)])
    with pytest.raises((RuntimeError, zstandard.ZstdError)):
        restore(damaged, leased(np.zeros_like(array)))


def test_zstd_counts_its_memory():
    array = leased(sparse(3 << 18))
    with pool("cpu").peak_scope() as scope:
        payload = Zstd().pack(Payload.of(array, CPU), SITE)
    assert pool("cpu").used_bytes() - scope.begin_bytes == payload.nbytes
    assert scope.peak_bytes - scope.begin_bytes <= payload.nbytes + get_num_threads() * (1 << 20)


# -- bfloat16 ----------------------------------------------------------------------------------------------------------


@given(hnp.arrays(np.float32, st.integers(1, 50), elements=st.floats(width=32)))
def test_bfloat16_of_float32_keeps_its_bound_nan_and_infinities(values):
    array = leased(values)
    payload, out = round_trip(BFloat16(), array)
    assert not payload.exact
    assert payload.nbytes == 2 * values.size
    assert (np.isnan(out) == np.isnan(values)).all()
    infinite = np.isinf(values)
    assert (out[infinite] == values[infinite]).all()
    finite = np.isfinite(values)
    assert np.isfinite(out[finite]).all()
    exact, got = values[finite].astype(np.float64), out[finite].astype(np.float64)
    assert (np.abs(got - exact) <= np.maximum(np.abs(exact) * 2.0**-8, 2.0**-134)).all()
    assert (np.signbit(out[finite]) == np.signbit(values[finite])).all()


@given(hnp.arrays(np.float64, st.integers(1, 50), elements=st.floats(-3e38, 3e38)))
def test_bfloat16_of_float64_keeps_its_bound(values):
    payload, out = round_trip(BFloat16(), leased(values))
    assert payload.nbytes == 2 * values.size
    assert (np.abs(out - values) <= np.maximum(np.abs(values) * (2.0**-8 + 2.0**-23), 2.0**-133)).all()


def test_bfloat16_leaves_a_float64_alone_that_would_overflow():  # case D1
    values = np.ones(100)
    values[70] = 1e300
    assert round_trip(BFloat16(), leased(values)) == (None, None)
    values[70] = np.inf
    assert np.isinf(round_trip(BFloat16(), leased(values))[1][70])


def test_bfloat16_rounds_the_largest_float32_down():  # case D1
    largest = np.finfo(np.float32).max
    array = leased(np.array([[largest, 1.0, -largest, np.inf], [-np.inf, np.nan, 0.0, -0.0]], np.float32))
    for view in (array, array.T):
        _, out = round_trip(BFloat16(), view)
        got = out if view is array else out.T
        assert got[0, 0] == np.float32(ml_dtypes.finfo(ml_dtypes.bfloat16).max)
        assert got[0, 2] == -got[0, 0]
        assert got[0, 3] == np.inf
        assert got[1, 0] == -np.inf
        assert np.isnan(got[1, 1])


@pytest.mark.parametrize("dtype", ["bool", "int64", "uint8", "float16", "complex64", ml_dtypes.bfloat16])
def test_bfloat16_leaves_everything_else_exact(dtype):  # case D4
    assert BFloat16().pack(Payload.of(leased(np.zeros(5000, dtype)), CPU), SITE) is None
