"""Memory that goes to other libraries and comes from them."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import memory_allocated, pool, pools
from stowgrad.utils.dlpack import from_dlpack, to_dlpack


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
    t = stowgrad.tensor([1.0])
    same = stowgrad.from_dlpack(t)
    assert same._storage is t._storage
    with pytest.raises(BufferError, match="require gradient"):
        stowgrad.from_dlpack(t.requires_grad_())


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


def test_a_copy_for_the_consumer_is_counted_too() -> None:
    t = stowgrad.arange(1 << 16)
    before = memory_allocated()
    copied = np.from_dlpack(t, copy=True)
    assert not np.shares_memory(copied, t.numpy())
    assert copied.tolist() == t.tolist()
    assert memory_allocated() - before == t.nbytes
    del copied
    assert memory_allocated() == before


def test_memory_of_another_device_is_copied_where_it_is_asked_for() -> None:
    t = stowgrad.arange(3, device="sim:0")
    assert np.from_dlpack(t, device="cpu").tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"copy=False"):
        np.from_dlpack(t, device="cpu", copy=False)
    source = np.arange(3.0)
    moved = stowgrad.from_dlpack(source, device="sim:0")
    assert str(moved.device) == "sim:0"
    with pytest.raises(ValueError, match="without a copy"):
        stowgrad.from_dlpack(source, device="sim:0", copy=False)
    assert not np.shares_memory(stowgrad.from_dlpack(source, copy=True).numpy(), source)
    assert np.shares_memory(stowgrad.from_dlpack(source, device="cpu", copy=False).numpy(), source)


@pytest.mark.parametrize("versioned", [False, True])
def test_capsules_of_both_kinds_can_be_taken_once(versioned: bool) -> None:
    t = stowgrad.arange(6.0).reshape(2, 3)
    capsule = t.t().__dlpack__(max_version=(1, 0)) if versioned else to_dlpack(t.t())
    taken = from_dlpack(capsule)
    taken += 1
    assert t.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert taken.stride() == (1, 3)
    with pytest.raises(RuntimeError, match="only once"):
        from_dlpack(capsule)


def test_what_must_not_be_written_is_not() -> None:
    source = np.arange(3.0)
    source.flags.writeable = False
    t = stowgrad.from_dlpack(source)
    for write in (lambda: t.add_(1), t.zero_, t.normal_, t[:1].exp_):
        with pytest.raises(RuntimeError, match="must not be written"):
            write()
    with pytest.raises(RuntimeError, match="must not be written"):
        t[0] = 1.0
    assert t._version == 0
    assert source.tolist() == [0.0, 1.0, 2.0]
    assert not np.from_dlpack(t).flags.writeable
    with pytest.raises(BufferError, match="readonly"):
        t.__dlpack__()  # a capsule of the former kind can't say so
    assert t.clone().add_(1).tolist() == [1.0, 2.0, 3.0]


class _Once:
    """Hands on what a tensor exports."""

    def __init__(self, tensor: Any, version: tuple[int, int] | None) -> None:
        self.tensor, self.version = tensor, version

    def __dlpack__(self, **_: Any) -> Any:
        return self.tensor.__dlpack__(max_version=self.version)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float16", "bool", "complex64"])
def test_dtypes_that_numpy_does_not_exchange(name: str, version: Any) -> None:
    dtype = getattr(stowgrad, name)
    t = stowgrad.tensor([[1.0, 0.0, 2.0], [0.5, 3.0, 0.25]]).to(dtype)
    before = memory_allocated()
    taken = stowgrad.from_dlpack(_Once(t[:, ::2], version))
    assert taken.dtype == dtype
    assert taken.stride() == (3, 2)
    assert taken.tolist() == t[:, ::2].tolist()
    assert np.shares_memory(taken.numpy(), t.numpy())
    del taken
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
    with pytest.raises(TypeError, match="stream must be an int"):
        stowgrad.zeros(2).__dlpack__(stream="main")
    with pytest.raises(BufferError, match="device_type: 99"):
        stowgrad.zeros(2).__dlpack__(dl_device=(99, 0))
    with pytest.raises(BufferError, match="sim:0"):
        np.from_dlpack(stowgrad.zeros(2, device="sim:0"))
    assert stowgrad.zeros(2).__dlpack_device__() == (1, 0)
    assert stowgrad.zeros(2, device="sim:1").__dlpack_device__() == (12, 1)


@contextlib.contextmanager
def without_cupy() -> Iterator[None]:
    """No CuPy, and no pool that was made with it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "cupy", None)
        for device in [device for device in pools._pools if device.type == "cuda"]:
            patch.delitem(pools._pools, device)
        yield


def test_what_cannot_be_imported() -> None:
    class OnADevice:
        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("not asked for")

        def __dlpack_device__(self) -> tuple[int, int]:
            return 2, 0

    with pytest.raises(RuntimeError, match=r"invalid capsule \(\[1\.0\]\)"):
        stowgrad.from_dlpack([1.0])
    with pytest.raises(ModuleNotFoundError, match="CuPy"), without_cupy():
        stowgrad.from_dlpack(OnADevice())
    with pytest.raises(TypeError, match="capsules"):
        stowgrad.from_dlpack(stowgrad.zeros(2).__dlpack__(), copy=True)
    with pytest.raises(BufferError):
        stowgrad.from_dlpack(np.array(["text"]))


def test_tensors_off_cuda_have_no_cuda_interface() -> None:
    assert not hasattr(stowgrad.zeros(2), "__cuda_array_interface__")
