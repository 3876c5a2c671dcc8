"""Devices: names, the stand-in accelerator, and the device without data."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import CPU, META, Device, as_device, memory_allocated, pool

BYTE = np.dtype(np.uint8)


@pytest.mark.parametrize(
    ("name", "kind", "index"),
    [("cpu", "cpu", None), ("cpu:0", "cpu", None), ("meta", "meta", None), ("sim", "sim", 0), ("cuda:3", "cuda", 3)],
)
def test_names(name, kind, index):
    assert (Device(name).type, Device(name).index) == (kind, index)


def test_an_index_may_stand_apart():
    assert Device("sim", 2) is Device("sim:2")


@pytest.mark.parametrize("name", ["gpu", "", "cpu:", "sim:x", "SIM:0", "sim:-1", "sim:0:1"])
def test_unknown_names_are_refused(name):
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda, meta, sim"):
        Device(name)


def test_an_index_is_given_once():
    with pytest.raises(RuntimeError, match="names its index already"):
        Device("sim:1", 2)


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_there_is_one_host(kind):
    with pytest.raises(RuntimeError, match="only one"):
        Device(kind, 1)


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d)), lambda d: Device(str(d))]
)
def test_equal_devices_are_the_same_object(twin):
    assert twin(Device("sim:1")) is Device("sim:1")


def test_a_device_does_not_change():
    with pytest.raises(AttributeError, match="immutable"):
        CPU.index = 3


@pytest.mark.parametrize(("given", "expected"), [(None, CPU), ("meta", META), (CPU, CPU)])
def test_as_device(given, expected):
    assert as_device(given) is expected


@pytest.mark.parametrize("given", [0, 1.5, b"cpu"])
def test_what_is_no_device_is_refused(given):
    with pytest.raises(TypeError, match="expected a device or its name"):
        as_device(given)


def test_each_device_has_a_pool_of_its_own():
    before = memory_allocated("sim:3"), memory_allocated("sim:4")
    x = stowgrad.ones(1000, device="sim:3")
    assert memory_allocated("sim:3") - before[0] == x.nbytes
    assert memory_allocated("sim:4") == before[1]


# -- sim ---------------------------------------------------------------------------------------------------------------


def test_freed_memory_of_a_sim_is_overwritten():
    array, _ = pool("sim:0").lease((1000,), BYTE)
    array[...] = 1
    address = array.ctypes.data
    del array
    again, _ = pool("sim:0").lease((1000,), BYTE)
    assert again.ctypes.data == address
    assert set(again.tolist()) == {0xA5}


def test_freed_memory_of_the_cpu_is_left_alone():
    array, _ = pool("cpu").lease((1000,), BYTE)
    array[...] = 1
    del array
    again, _ = pool("cpu").lease((1000,), BYTE)
    assert set(again.tolist()) == {1}


@pytest.mark.parametrize("size", [5, 5000])
def test_results_stay_on_the_device(device, size):
    x = stowgrad.ones(size, device=device, requires_grad=True)
    y = (x * 2).exp().sum()
    y.backward()
    assert {str(t.device) for t in (y, x.grad)} == {device}


def test_a_sim_s_results_are_the_cpu_s():
    found = []
    for name in ("cpu", "sim:0"):
        x = stowgrad.tensor(np.linspace(-1, 1, 3000), device=name, requires_grad=True)
        (x.tanh() * x).softmax(0).exp().sum().backward()
        found.append(x.grad.cpu().numpy())
    assert np.array_equal(*found)


# -- meta --------------------------------------------------------------------------------------------------------------


def test_meta_tensors_are_counted_and_take_nothing():
    before = memory_allocated("meta")
    x = stowgrad.empty(1 << 20, 1 << 20, device="meta")
    assert memory_allocated("meta") - before == 1 << 42
    assert x.shape == (1 << 20, 1 << 20)
    del x
    assert memory_allocated("meta") == before


def test_meta_tensors_have_no_data():
    with pytest.raises(RuntimeError, match="no data"):
        stowgrad.ones(3, device="meta").tolist()


def test_meta_tensors_print():
    assert "device='meta'" in repr(stowgrad.ones(3, device="meta"))


def step(device):
    """A forward and backward whose peak is asked for."""
    x = stowgrad.ones(64, 200, device=device, requires_grad=True)
    w = stowgrad.ones(200, 100, device=device, requires_grad=True)
    of = pool(device)
    with of.peak_scope() as scope:
        y = ((x @ w).tanh() * 2).softmax(-1).sum()
        forward = scope.peak_bytes - scope.begin_bytes
        y.backward()
        backward = scope.peak_bytes - scope.begin_bytes
    return forward, backward, x.grad.shape, w.grad.shape


def test_a_dry_run_predicts_the_peaks():  # law 3
    assert step("meta")[:2] == step("cpu")[:2]


def test_a_dry_run_predicts_the_shapes():  # law 3
    assert step("meta")[2:] == ((64, 200), (200, 100))
