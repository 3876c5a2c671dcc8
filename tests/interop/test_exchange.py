"""Memory that goes to other libraries and comes from them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import memory_allocated, pool


def test_an_array_of_a_tensor_shares_its_memory() -> None:
    t = stowgrad.tensor([1.0, 2.0])
    array = np.asarray(t)
    array[0] = 5.0
    assert t.tolist() == [5.0, 2.0]
    assert not np.shares_memory(np.array(t), t.numpy())
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(t, dtype=np.float64, copy=False)


def test_an_array_of_what_requires_grad_is_refused() -> None:
    t = stowgrad.tensor([1.0], requires_grad=True)
    for convert in (np.asarray, np.array, np.asanyarray, np.ascontiguousarray):
        with pytest.raises(RuntimeError, match=r"Use tensor\.detach\(\)\.numpy\(\)"):
            convert(t)
        with stowgrad.no_grad(), pytest.raises(RuntimeError, match="requires grad"):
            convert(t)
    view = t.detach()
    assert np.asarray(view).tolist() == [1.0]


def test_dlpack_shares_memory_both_ways() -> None:
    t = stowgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    array = np.from_dlpack(t.t())
    assert np.shares_memory(array, t.numpy())
    assert array.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    back = stowgrad.from_dlpack(np.arange(3))
    assert back.tolist() == [0, 1, 2]
    source = np.arange(6.0).reshape(2, 3)[:, ::2]
    taken = stowgrad.from_dlpack(source)
    assert taken.stride() == (3, 2)
    taken += 1
    assert source[0].tolist() == [1.0, 3.0]


def test_a_tensor_comes_back_over_the_same_storage() -> None:
    t = stowgrad.tensor([1.0], requires_grad=True)
    same = stowgrad.from_dlpack(t)
    assert same._storage is t._storage
    assert not same.requires_grad


@pytest.mark.parametrize("size", [10, 1 << 18])
def test_an_exported_buffer_stays_counted_and_is_not_reused(size: int) -> None:
    gc.collect()
    before = memory_allocated()
    t = stowgrad.full((size,), 7.0)
    nbytes = t.nbytes
    consumer = np.from_dlpack(t)
    del t
    assert memory_allocated() - before == nbytes
    others = [stowgrad.zeros(size) for _ in range(4)]
    assert not any(np.shares_memory(consumer, other.numpy()) for other in others)
    assert np.all(consumer == 7.0)
    del others, consumer
    assert memory_allocated() == before


def test_a_capsule_that_nobody_took_lets_go() -> None:
    before = memory_allocated()
    t = stowgrad.zeros(1 << 16)
    capsule = t.__dlpack__()
    del t
    assert memory_allocated() > before
    del capsule
    assert memory_allocated() == before


def test_imported_memory_counts_as_input_while_a_tensor_looks_at_it() -> None:
    source = np.zeros(1 << 16)
    before = pool("cpu").bytes_by_category().get("input", 0)
    t = stowgrad.from_dlpack(source)
    assert pool("cpu").bytes_by_category()["input"] - before == source.nbytes
    del t
    assert pool("cpu").bytes_by_category().get("input", 0) == before


def test_what_cannot_be_exported() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        stowgrad.tensor([1.0], requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="meta"):
        stowgrad.zeros(2, device="meta").__dlpack__()
    with pytest.raises(BufferError, match="meta"):
        stowgrad.zeros(2, device="meta").__dlpack_device__()
    with pytest.raises(BufferError, match="stream"):
        stowgrad.zeros(2).__dlpack__(stream=3)
    assert stowgrad.zeros(2).__dlpack_device__() == (1, 0)


def test_what_cannot_be_imported() -> None:
    class OnADevice:
        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("not asked for")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(TypeError, match="list"):
        stowgrad.from_dlpack([1.0])
    with pytest.raises(BufferError, match="type 2"):
        stowgrad.from_dlpack(OnADevice())


def test_tensors_off_cuda_have_no_cuda_interface() -> None:
    assert not hasattr(stowgrad.zeros(2), "__cuda_array_interface__")
