"""Memory of CUDA devices, on the double of CuPy; and a device that isn't there."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stowgrad.memory import Device, MemoryBudgetError, pool, referable_array, storage_for_user, storage_of

from .. import fake_cupy
from ..fake_cupy.arrays import Memory, Stream, state

FLOAT32 = np.dtype(np.float32)
CUDA = Device("cuda:0")


@pytest.fixture
def cupy() -> Iterator[Any]:
    with fake_cupy.installed() as double:
        yield double


def test_a_block_comes_back_when_the_last_view_dies(cupy: Any, no_collector: None) -> None:
    memory = pool(CUDA)
    array, storage = memory.lease((4, 6), FLOAT32)
    assert storage_of(array) is storage
    assert storage.device is CUDA
    view = array[1:].T
    assert storage_of(view) is storage
    address = array.data.ptr
    del array
    assert memory.used_bytes() == 96
    del view
    assert memory.used_bytes() == 0
    assert storage() is None
    again, _ = memory.lease((4, 6), FLOAT32)
    assert again.data.ptr == address


def test_views_of_one_lease_do_not_keep_the_next(cupy: Any) -> None:
    memory = pool(CUDA)
    first, storage = memory.lease((8,), FLOAT32)
    del first
    second, other = memory.lease((8,), FLOAT32)
    assert storage_of(second) is other
    assert other is not storage


def test_what_cupy_takes_is_counted(cupy: Any) -> None:
    memory = pool(CUDA)
    array = cupy.empty((100,), FLOAT32)
    storage = storage_of(array)
    assert storage is not None
    assert storage.category == "temporary"
    assert storage_for_user(array, CUDA) is storage
    assert memory.bytes_by_category()["temporary"] == 400
    total = array + array
    assert memory.used_bytes() == 800
    del array, total, storage
    assert memory.used_bytes() == 0


def test_the_users_own_memory_is_counted_outside_the_limit(cupy: Any) -> None:
    array = cupy.empty((100,), FLOAT32)  # from CuPy's own allocator: there is no pool yet
    memory = pool(CUDA)
    memory.set_limit(100)
    ours = referable_array(array)
    storage = storage_for_user(ours, CUDA)
    assert storage.category == "input"
    assert memory.used_bytes() == 400
    assert memory.held_bytes() == 0
    assert referable_array(ours) is ours
    again = referable_array(array[10:])
    assert storage_for_user(again, CUDA) is storage  # however often it comes in
    assert again.data.ptr == array.data.ptr + 40
    del array, ours
    assert memory.used_bytes() == 400
    del again
    assert memory.used_bytes() == 0


def test_a_limit_holds(cupy: Any) -> None:
    memory = pool(CUDA)
    memory.set_limit(4096)
    kept = memory.lease((512,), FLOAT32)
    with pytest.raises(MemoryBudgetError, match="cuda:0"):
        memory.lease((1024,), FLOAT32)
    with pytest.raises(MemoryBudgetError, match="cuda:0"):
        cupy.empty((1024,), FLOAT32)
    del kept


def test_a_full_device_is_a_memory_error(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = pool(CUDA)
    monkeypatch.setattr(Memory, "failing", True)
    with pytest.raises(MemoryError, match=r"cuda:0 has no 1,024 bytes free"):
        memory.lease((256,), FLOAT32)
    assert memory.used_bytes() == 0


def test_another_stream_waits_before_it_uses_a_block(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = pool(CUDA)
    first, second = state.stream, Stream()
    memory.lease((64,), FLOAT32)
    memory.lease((64,), FLOAT32)
    assert first.waited == []
    monkeypatch.setattr(state, "stream", second)
    memory.lease((64,), FLOAT32)
    assert second.waited == [("event", first.ptr)]
    memory.lease((64,), FLOAT32)
    assert len(second.waited) == 1


def test_each_device_has_its_own_pool_and_runs_its_own_kernels(cupy: Any) -> None:
    from stowgrad.kernels import backend

    one = Device("cuda:1")
    x, _ = pool(one).lease((8,), FLOAT32)
    backend("cuda").fill(x, 2)
    out, storage = pool(one).lease((8,), FLOAT32)
    backend("cuda").softmax(x, out)
    assert storage.device is one
    assert state.current == 0
    assert pool(CUDA).used_bytes() == 0
    assert pool(one).used_bytes() == 64
    np.testing.assert_allclose(out.get(), 1 / 8)


@pytest.mark.parametrize(("count", "message"), [(2, "there are 2 CUDA devices, 'cuda:0' to 'cuda:1'"), (0, "no CUDA")])
def test_a_device_that_is_not_there_is_named(
    count: int, message: str, cupy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "device_count", count)
    with pytest.raises(RuntimeError, match=f"'cuda:2' does not exist: .*{message}"):
        pool("cuda:2")


def test_a_missing_driver_is_named(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "device_count", -1)
    with pytest.raises(RuntimeError, match="'cuda:0' cannot be used: no CUDA device or driver was found"):
        pool("cuda")


def test_a_missing_cupy_is_named_with_what_to_install() -> None:
    code = """
import sys
sys.modules["cupy"] = None  # as if it were not installed
import stowgrad
try:
    stowgrad.ones(3, device="cuda")
except ModuleNotFoundError as error:
    print(error)
"""
    root = Path(__file__).resolve().parents[2]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert "needs the package CuPy" in result.stdout, result.stderr
    assert "pip install stowgrad[cuda13]" in result.stdout
    assert "stowgrad[cuda12]" in result.stdout
