"""Copies between CUDA devices and the host, on the double of CuPy."""

from __future__ import annotations

import numpy as np
import pytest

from stowgrad.memory import Device, pool, storage_of
from stowgrad.offload import save_on_cpu, streams
from stowgrad.saved_tensors import SavedValue

from .. import fake_cupy
from ..fake_cupy.arrays import state

CUDA = Device("cuda:0")


@pytest.fixture
def cupy():
    streams.stream_of.cache_clear()
    with fake_cupy.installed() as double:
        yield double
    state.stream.waited.clear()
    streams.stream_of.cache_clear()


def value(numbers):
    array, _ = pool(CUDA).lease(numbers.shape, numbers.dtype)
    array.set(numbers)
    return array


def save(policy, array):
    return policy.save(SavedValue(array, storage_of(array), "op", "self"), ())


@pytest.mark.parametrize("options", [{}, {"pin_memory": True}, {"pin_memory": True, "pinned_limit": 1}, {"window": 0}])
def test_values_move_to_the_host_and_back(cupy, options):
    policy = save_on_cpu(**options)
    numbers = [np.random.default_rng(number).random((40, 30)) for number in range(4)]
    arrays = [value(one) for one in numbers]
    handles = [save(policy, array) for array in arrays]
    handles.append(save(policy, arrays[0].T[::2]))
    policy.synchronize()
    storages = [storage_of(array) for array in arrays]
    del arrays
    assert [storage() for storage in storages] == [None] * 4
    assert np.array_equal(handles[4].load().get(), numbers[0].T[::2])
    for number in reversed(range(4)):
        loaded = handles[number].load()
        assert storage_of(loaded).device is CUDA
        assert np.array_equal(loaded.get(), numbers[number])
    del handles, loaded
    if options.get("pin_memory"):
        assert policy._links[0].stage.pinned.used_bytes == 0


def test_streams_wait_for_each_other(cupy):  # case B12
    policy = save_on_cpu()
    mine = cupy.cuda.Stream()
    with mine:
        handles = [save(policy, value(np.ones(3))) for _ in range(2)]
        out = streams.stream_of(CUDA, "out")._stream
        assert mine.record() in out.waited
        handles[1].load()
        came_in = streams.stream_of(CUDA, "in")._stream
        assert mine.record() in came_in.waited
        handles[0].load()
        assert came_in.record() in mine.waited
