"""Values as nodes save them, without tensors."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from stowgrad.kernels import backend
from stowgrad.memory import pool, storage_of
from stowgrad.saved_tensors import Policy, SavedValue


def leased(values: Any, device: str = "cpu", category: str = "activation") -> np.ndarray[Any, Any]:
    """A copy of some values in the pool of a device, in C order."""
    values = np.asarray(values)
    array, storage = pool(device).lease(values.shape, values.dtype, category)
    backend(storage.device.type).copy(values, array)
    return array


def saved(array: np.ndarray[Any, Any], op: str = "op", slot: str = "self") -> SavedValue:
    """The array as a value on its way to a policy."""
    storage = storage_of(array)
    assert storage is not None
    return SavedValue(array, storage, op, slot)


def save(policy: Policy, array: np.ndarray[Any, Any], op: str = "op", slot: str = "self", outer: Any = ()) -> Any:
    """What a policy makes of an array: a handle, or None."""
    return policy.save(saved(array, op, slot), outer)


def assert_same(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """Same shape, dtype, strides and bits."""
    assert (got.shape, got.dtype, got.strides) == (expected.shape, expected.dtype, expected.strides)
    assert got.tobytes() == expected.tobytes()


DTYPES = [np.dtype(name) for name in ("bool", "int8", "int64", "float16", "float32", "float64", "complex64")]
DTYPES += [np.dtype("complex128"), np.dtype(ml_dtypes.bfloat16)]


@st.composite
def views(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """An array of any dtype in the pool, viewed through slices, steps, transposes and broadcasts."""
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=6))
    dtype = draw(st.sampled_from(DTYPES))
    raw = np.random.default_rng(draw(st.integers(0, 999))).integers(0, 256, shape + (16,), np.uint8)
    values = raw[..., : dtype.itemsize].copy().view(dtype)[..., 0] if dtype.kind != "b" else raw[..., 0] > 99
    view = leased(values.reshape(shape))
    if view.ndim:
        step = st.sampled_from([1, 2, 3, -1, -2])
        view = view[tuple(slice(draw(st.integers(0, 2)), None, draw(step)) for _ in shape)]
        view = view.transpose(draw(st.permutations(range(view.ndim))))
    if draw(st.booleans()):
        view = np.broadcast_to(view, (draw(st.integers(1, 3)), *view.shape))
    return view
