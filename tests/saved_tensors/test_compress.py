from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import pool
from stowgrad.saved_tensors import Cast, Compress

from .support import assert_same, leased, save


def test_auto_packs_bools_into_bits():
    mask = leased(np.random.default_rng(0).random((512, 512)) < 0.5)
    handle = save(Compress(), mask)
    assert handle.policy == "packbits"
    assert handle.resident_bytes == mask.nbytes // 8
    assert_same(handle.load(), mask)


def test_auto_compresses_sparse_masks_further():
    mask = leased(np.random.default_rng(0).random((2048, 512)) < 0.01)
    handle = save(Compress(), mask.T)
    assert handle.policy == "packbits | zstd"
    assert handle.resident_bytes < mask.nbytes // 12
    assert_same(handle.load(), mask.T)


def test_auto_compresses_integers_and_zeros_but_not_dense_floats():
    policy = Compress()
    rng = np.random.default_rng(0)
    indices = leased(rng.integers(0, 100, 40000))
    handle = save(policy, indices, "embedding", "indices")
    assert handle.policy == "narrow"
    assert handle.resident_bytes < indices.nbytes / 4
    assert_same(handle.load(), indices)
    assert save(policy, leased(rng.standard_normal(40000)), "mul") is None
    assert policy.statistics().kept == 1


def test_small_values_are_left_alone():
    assert save(Compress(), leased(np.zeros(1000))) is None
    assert save(Compress(min_bytes=0), leased(np.zeros(1000))) is not None
    assert save(Cast(), leased(np.zeros(100))) is None


def test_named_codecs_do_that_and_no_more():
    mask, zeros = leased(np.zeros(1 << 17, bool)), leased(np.zeros(1 << 15))
    assert save(Compress("packbits"), mask).policy == "packbits"
    assert save(Compress("packbits"), zeros) is None
    assert save(Compress("zstd"), mask).policy == "zstd"


def test_unknown_names_are_errors():  # case C6
    with pytest.raises(ValueError, match="unknown codec 'lz4'; expected 'auto' or one of 'packbits'"):
        Compress("lz4")
    with pytest.raises(ValueError, match="unknown dtype 'float8'; expected 'bfloat16'"):
        Cast("float8")


def test_a_level_is_for_what_has_one():
    assert Compress("zstd", level=3).describe().startswith("zstd, level 3")
    assert "zstd, level 3" in Compress(level=3).describe()
    with pytest.raises(ValueError, match="level is zstandard's, and 'packbits' has none"):
        Compress("packbits", level=3)


def test_auto_remembers_for_each_call_site_whether_it_pays():
    policy = Compress(min_bytes=0)
    dense = np.random.default_rng(0).standard_normal(1 << 14)
    with policy:
        for _ in range(3):
            kept = (stowgrad.tensor(dense, requires_grad=True) * 1).sin()
            packed = (stowgrad.tensor(0 * dense + [*range(64)] * 256, requires_grad=True) * 1).sin()
    outcomes = {site.outcome for site in policy.report().sites if site.op == "sin"}
    assert outcomes == {"kept: not worth it", "zstd"}
    del kept, packed


def test_cast_rounds_floats_only_and_says_so():  # cases D1, D4
    policy = Cast("bfloat16", min_bytes=0)
    floats = leased(np.linspace(-3, 3, 1000, dtype=np.float32).reshape(10, 100))
    handle = save(policy, floats.T)
    assert handle.resident_bytes == floats.nbytes // 2
    got = handle.load()
    assert got.strides == floats.T.strides
    assert np.abs(got - floats.T).max() <= np.abs(floats).max() * 2.0**-8
    assert "lossy" in policy.describe()
    for exact in (np.zeros(1000, bool), np.arange(1000), np.zeros(1000, complex)):
        assert save(policy, leased(exact)) is None


def test_cast_then_zstd():
    array = np.maximum(np.random.default_rng(0).standard_normal((256, 256)), 0.5).astype(np.float32) - np.float32(0.5)
    handle = save(Cast("bfloat16") | Compress("zstd"), leased(array))
    assert handle.policy == "bfloat16 | zstd"
    assert handle.resident_bytes < array.nbytes / 4
    assert np.abs(handle.load() - array).max() <= array.max() * 2.0**-8


def test_resident_bytes_are_what_the_pool_counts(device):
    array = leased(np.zeros((300, 300)), device)
    place = "cpu" if device.startswith("cuda") else device  # zstandard works on host memory
    before = pool(place).bytes_by_category()["saved_packed"]
    handle = save(Compress("zstd"), array)
    packed = pool(place).bytes_by_category()["saved_packed"] - before
    assert (handle.resident_bytes, handle.offloaded_bytes) == ((packed, 0) if place == device else (0, packed))
    assert_same(handle.load(), array)
