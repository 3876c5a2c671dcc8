from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from stowgrad.memory import CPU, pool
from stowgrad.saved_tensors import Payload, Site, Stage
from stowgrad.saved_tensors.layout import Layout, elements_of, layout_of, view_at
from stowgrad.saved_tensors.payload import byte_runs, restore

from .support import leased, views


def layout(array: np.ndarray, root: np.ndarray) -> Layout:
    return layout_of(array, root.__array_interface__["data"][0])


def test_transposed_expanded_and_reversed_views_have_one_dense_layout():
    h = leased(np.arange(12.0).reshape(3, 4))
    expected = layout(h, h)
    assert expected.dense
    assert (expected.lo, expected.hi) == (0, 96)
    for view in (h.T, h[::-1], h[:, ::-1].T, np.broadcast_to(h, (9, 3, 4)), h[None, :, None], h.reshape(2, 6)):
        assert layout(view, h) == expected


def test_a_view_with_gaps_counts_its_elements_only():
    h = leased(np.zeros((10, 100)))
    columns = layout(h[:, :2], h)
    assert not columns.dense
    assert columns.nbytes == 10 * 2 * 8
    assert (columns.lo, columns.hi) == (0, 9 * 800 + 16)
    assert layout(h, h).covers(columns)
    assert not columns.covers(layout(h[0, :1], h))


def test_overlapping_windows_are_their_extent():
    h = leased(np.arange(10.0))
    windows = np.lib.stride_tricks.sliding_window_view(h, 4)
    assert layout(windows, h) == layout(h, h)


def test_a_scalar_is_dense():
    h = leased(np.arange(5.0))
    assert layout(h[3:4].reshape(()), h) == Layout(24, 32, (1,), (8,), 8)


@given(views())
def test_a_view_is_made_again_from_its_layout(view):
    if not view.size:
        return
    root = view
    while isinstance(root.base, np.ndarray) and type(root.base) is np.ndarray:
        root = root.base
    origin = root.__array_interface__["data"][0]
    found = layout_of(view, origin)
    elements = elements_of(view, found)
    assert elements.shape == found.shape
    assert elements.nbytes == found.nbytes <= view.nbytes
    frame = np.zeros(found.hi - found.lo, np.uint8)
    view_at(frame, 0, found.shape, found.strides, view.dtype)[...] = elements
    again = view_at(
        frame, view.__array_interface__["data"][0] - origin - found.lo, view.shape, view.strides, view.dtype
    )
    assert again.tobytes() == view.tobytes()


@pytest.mark.parametrize("run_bytes", [16, 64, 1 << 20])
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex128"])
def test_byte_runs_join_to_the_bytes_in_c_order(dtype, run_bytes):
    array = leased(np.arange(7 * 5 * 3).reshape(7, 5, 3).astype(dtype))
    for view in (array, array.T, array[::2, :, 1:], array[1:1], array[0, 0, :1].reshape(())):
        runs = [run.tobytes() for run in byte_runs(view, run_bytes)]
        assert b"".join(runs) == view.tobytes()
        assert all(len(run) == run_bytes for run in runs[:-1])


def test_runs_of_a_contiguous_array_are_views():
    array = leased(np.arange(100.0))
    assert all(np.shares_memory(run, array) for run in byte_runs(array, 64))


class Negate(Stage):
    name = "negate"

    def pack(self, payload, site):
        return payload.then(self, tuple(-buffer for buffer in payload.buffers), payload.place, site)

    def unpack(self, payload, outs):
        for out, buffer in zip(outs, payload.buffers):
            np.negative(buffer, out=out)


class Halve(Negate):
    name = "halve"

    def pack(self, payload, site):
        return payload.then(self, tuple(half for b in payload.buffers for half in np.split(b, 2)), payload.place)

    def unpack(self, payload, outs):
        for index, out in enumerate(outs):
            np.concatenate(payload.buffers[2 * index : 2 * index + 2], out=out)


def test_stages_are_undone_in_reverse_order():
    array = leased(np.arange(8.0))
    payload = Payload.of(array, CPU)
    for stage in (Halve(), Negate(), Halve()):
        payload = stage.pack(payload, Site("mul", "self"))
    assert payload.label == "halve | negate | halve"
    assert payload.exact
    assert [len(done.specs) for done in payload.undo] == [1, 2, 2]
    assert payload.nbytes == array.nbytes
    out = leased(np.zeros(8))
    before = pool("cpu").used_bytes()
    restore(payload, out)
    assert out.tolist() == array.tolist()
    assert pool("cpu").used_bytes() == before
