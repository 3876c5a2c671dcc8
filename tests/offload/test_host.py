from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from stowgrad.memory import pool, storage_of
from stowgrad.offload import Offload, save_on_cpu
from stowgrad.saved_tensors import Compress

from ..saved_tensors.support import assert_same, leased, save, views


def test_a_device_value_moves_to_the_host_and_back():
    array = leased(np.arange(1000.0).reshape(10, 100), "sim:0")
    policy = save_on_cpu()
    before = pool("cpu").bytes_by_category()["saved_packed"]
    handle = save(policy, array.T)
    assert (handle.policy, handle.resident_bytes, handle.offloaded_bytes) == ("cpu", 0, 8000)
    assert pool("cpu").bytes_by_category()["saved_packed"] == before + 8000
    expected = array.T.copy(order="K")
    storage = storage_of(array)
    policy.synchronize()
    del array
    assert storage() is None  # nothing of the value is left on the device
    loaded = handle.load()
    assert_same(loaded, expected)
    assert str(storage_of(loaded).device) == "sim:0"
    assert dict(policy.statistics().where) == {"cpu": 8000}
    del handle
    assert pool("cpu").bytes_by_category()["saved_packed"] == before


def test_a_value_that_is_on_the_cpu_is_kept():  # cases A3, B9, spec 5.2
    assert save(save_on_cpu(), leased(np.zeros(100000))) is None


def test_each_value_comes_back_to_its_own_device():  # case B9, spec 5.1
    policy = save_on_cpu()
    handles = [save(policy, leased(np.full(10, index), f"sim:{index}")) for index in range(2)]
    assert [str(storage_of(handle.load()).device) for handle in handles] == ["sim:0", "sim:1"]


def test_small_views_with_gaps_take_their_own_bytes():
    big = leased(np.arange(10000.0).reshape(100, 100), "sim:0")
    handle = save(save_on_cpu(), big[:, 7])
    assert handle.offloaded_bytes == 800
    assert_same(handle.load(), big[:, 7])


def test_compressed_on_the_device_then_moved():
    mask = leased(np.random.default_rng(0).random(1 << 17) < 0.5, "sim:0")
    handle = save(Compress("packbits") | save_on_cpu(), mask)
    assert (handle.policy, handle.offloaded_bytes) == ("packbits | cpu", 1 << 14)
    assert_same(handle.load(), mask)


def test_signature_is_pytorchs():  # spec 5.1
    policy = save_on_cpu(True, "sim")
    assert (policy.pin_memory, policy.device_type) == (True, "sim")
    with pytest.raises(RuntimeError, match="tpu"):
        save_on_cpu(device_type="tpu")


def test_offload_by_name():  # case C6
    assert isinstance(Offload("cpu", pin_memory=True), save_on_cpu)
    with pytest.raises(ValueError, match="unknown place 'dsik'; expected 'cpu' or 'disk'"):
        Offload("dsik")
    with pytest.raises(TypeError, match="directroy"):
        Offload("disk", directroy="x")


@pytest.mark.parametrize("pin_memory", [False, True])
def test_strides_come_back_and_expanded_values_take_their_real_size(pin_memory):  # case B8, spec 5.3, P7
    policy = save_on_cpu(pin_memory)
    last = leased(np.random.default_rng(0).random((2, 5, 6, 3)), "sim:0").transpose(0, 3, 1, 2)
    wide = np.broadcast_to(leased(np.arange(3.0), "sim:0"), (1000, 3))
    handles = [save(policy, last), save(policy, wide)]
    assert handles[1].offloaded_bytes == 24
    policy.synchronize()
    for handle, array in zip(handles, (last, wide)):
        assert_same(handle.load(), array)


@pytest.mark.parametrize("values", [1.5, np.zeros((0, 3)), np.array([1 + 2j, -3j]), np.array(True)])
def test_values_of_no_dimension_none_at_all_or_complex(values):  # case I8, spec 5.7
    array = leased(values, "sim:0")
    handle = save(save_on_cpu(), array)
    assert (handle is None) == (array.size == 0)  # kept: there is nothing to move
    if handle is not None:
        assert_same(handle.load(), array)


def test_pinned_memory_without_an_accelerator_is_plain_and_copies_nothing_on_the_host():  # spec 5.4
    policy = save_on_cpu(pin_memory=True)
    assert save(policy, leased(np.zeros(1000))) is None
    handle = save(policy, leased(np.arange(1000.0), "sim:0"))
    assert (handle.load() == np.arange(1000)).all()
    assert any("pin_memory" in text for text in policy.report().without_effect)


def test_a_limit_for_pinned_memory_that_there_is_none_of():
    policy = save_on_cpu(pinned_limit="1 MiB")
    handle = save(policy, leased(np.arange(1000.0), "sim:0"))
    assert handle is not None
    assert policy.report().without_effect == ("cpu, pinned_limit: without pin_memory=True no memory is page-locked",)


@given(views())
def test_any_view_comes_back(view):  # cases B8, I8, spec 5.3, 5.7
    on_device = leased(view, "sim:0")
    handle = save(save_on_cpu(), on_device)
    if view.size:
        assert_same(handle.load(), on_device)
