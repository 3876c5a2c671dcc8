"""Memory of CUDA devices that goes to other libraries and comes from them, on the double of CuPy."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import memory_allocated, pool

from .. import fake_cupy
from ..fake_cupy.arrays import Stream, state


@pytest.fixture
def cupy() -> Iterator[Any]:
    gc.collect()
    with fake_cupy.installed() as double:
        yield double


class Library:
    """Another library's array: a tensor's memory, with a note of how it was asked for."""

    def __init__(self, tensor: Any, old: bool = False) -> None:
        self.tensor, self.old = tensor, old
        self.asked: dict[str, Any] = {}

    def __dlpack__(self, **keywords: Any) -> Any:
        if self.old and keywords.keys() - {"stream"}:
            raise TypeError("unexpected keyword argument")
        self.asked = keywords
        return self.tensor.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def made(values: Any = ((1.0, 2.0, 3.0), (4.0, 5.0, 6.0)), device: str = "cuda:0", **options: Any) -> Any:
    return stowgrad.tensor(np.array(values), device=device, **options)


@pytest.mark.parametrize("device", ["cuda:0", "cuda:1"])
@pytest.mark.parametrize("name", ["float32", "int64", "bool", "complex64", "bfloat16", "float8_e5m2"])
def test_memory_goes_out_and_comes_in(cupy: Any, device: str, name: str) -> None:
    x = made(device=device).to(getattr(stowgrad, name))
    there = Library(x.t())
    assert there.__dlpack_device__() == (2, int(device[-1]))
    before = memory_allocated(device)
    taken = stowgrad.from_dlpack(there)
    assert str(taken.device) == device
    assert (taken.dtype, taken.stride(), taken.data_ptr()) == (x.dtype, (1, 3), x.data_ptr())
    assert taken.tolist() == x.t().tolist()
    assert state.current == 0
    assert memory_allocated(device) - before == x.nbytes  # under category input: another library's, as far as we know
    assert pool(device).bytes_by_category()["input"] == x.nbytes
    del taken
    assert memory_allocated(device) == before


def test_what_is_exported_stays_counted_and_is_not_reused(cupy: Any) -> None:
    x = made()
    before, address = memory_allocated("cuda:0"), x.data_ptr()
    consumer = cupy.from_dlpack(x.__dlpack__(stream=1))
    del x
    assert memory_allocated("cuda:0") == before
    assert made().data_ptr() != address
    assert consumer.get().tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    del consumer
    assert memory_allocated("cuda:0") == 0


def test_a_capsule_that_nobody_took_lets_go(cupy: Any) -> None:
    x = made()
    capsule = x.__dlpack__()
    del x
    assert memory_allocated("cuda:0") == 48
    del capsule
    assert memory_allocated("cuda:0") == 0


def test_streams_are_put_in_order(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x, there = made(), Stream()
    monkeypatch.setattr(state, "stream", Stream())
    mine = state.stream.ptr
    x.__dlpack__(stream=there.ptr)
    x.__dlpack__(stream=-1)
    x.__dlpack__()
    assert state.ordered == [(mine, there.ptr), (mine, 1)]
    library = Library(x)
    stowgrad.from_dlpack(library)
    assert library.asked == {"stream": mine}
    monkeypatch.setattr(state.stream, "ptr", 0)  # the default stream, whose number in the protocol is 1
    stowgrad.from_dlpack(library)
    assert library.asked == {"stream": 1}
    with pytest.raises(ValueError, match="valid stream"):
        x.__dlpack__(stream=-2)
    with pytest.raises(TypeError, match="stream must be"):
        x.__dlpack__(stream="default")


def test_both_kinds_of_capsules(cupy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    x = made()
    assert '"dltensor"' in repr(x.__dlpack__())
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0)))
    whole = cupy.ndarray.__dlpack__
    monkeypatch.setattr(cupy.ndarray, "__dlpack__", lambda self, stream=None: whole(self, stream=stream))
    assert '"dltensor"' in repr(x.__dlpack__(max_version=(1, 0)))  # CuPy before version 14


def test_copies_and_other_devices(cupy: Any) -> None:
    x = made()
    on_host = np.from_dlpack(x, device="cpu")
    assert on_host.tolist() == x.tolist()
    with pytest.raises(ValueError, match=r"cannot move .* from cuda:0 to cpu"):
        np.from_dlpack(x, device="cpu", copy=False)
    copied = stowgrad.from_dlpack(Library(x), copy=True)
    assert copied.data_ptr() != x.data_ptr()
    assert copied._storage.category == "activation"
    own = cupy.from_dlpack(x.__dlpack__(copy=True))
    assert own.data.ptr != x.data_ptr()
    assert own.get().tolist() == x.tolist()
    library = Library(x)
    assert str(stowgrad.from_dlpack(library, device="cpu").device) == "cpu"
    assert stowgrad.from_dlpack(library, copy=False).data_ptr() == x.data_ptr()
    assert library.asked["copy"] is False
    with pytest.raises(BufferError, match="require gradient"):
        made(requires_grad=True).__dlpack__()


def test_arrays_of_cupy_become_tensors(cupy: Any) -> None:
    array = cupy.full((2, 3), 1.5, np.float32)  # from CuPy's own allocator: there is no pool yet
    for make in (stowgrad.as_tensor, stowgrad.asarray):
        x = make(array)
        assert str(x.device) == "cuda:0"
        assert x.data_ptr() == array.data.ptr
        assert memory_allocated("cuda:0") == 24
    x.fill_(2.0)
    assert array.get().tolist() == [[2.0] * 3] * 2
    copied = stowgrad.tensor(array)
    assert str(copied.device) == "cuda:0"
    assert copied.data_ptr() != array.data.ptr
    assert stowgrad.as_tensor(array, device="cpu").tolist() == [[2.0] * 3] * 2
    product = copied.requires_grad_() * array
    product.sum().backward()
    assert copied.grad.tolist() == [[2.0] * 3] * 2


def test_the_array_interface_goes_both_ways(cupy: Any) -> None:
    class Theirs:
        def __init__(self, array: Any) -> None:
            self.array = array

        @property
        def __cuda_array_interface__(self) -> Any:
            return self.array.__cuda_array_interface__

    x = made()
    assert x.t().__cuda_array_interface__["data"][0] == x.data_ptr()
    there = cupy.asarray(x)
    assert there.data.ptr == x.data_ptr()
    before = memory_allocated("cuda:0")
    del x
    assert memory_allocated("cuda:0") == before
    taken = stowgrad.as_tensor(Theirs(there))
    assert taken.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
