"""Copies between a device and the host that go on in the background, on the stand-in accelerator."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import MemoryBudgetError, memory_allocated, pool, storage_of
from stowgrad.offload import save_on_cpu, save_on_disk, streams
from stowgrad.offload.streams import SimStream

from ..saved_tensors.support import assert_same, leased, save


class Gate:
    """Holds up the copies of the stand-in accelerator until it is opened, or makes them fail."""

    def __init__(self, real):
        self.real, self.open, self.error, self.made = real, threading.Event(), None, 0

    def __call__(self, out, array):
        assert self.open.wait(30)
        self.made += 1
        if self.error is not None:
            raise self.error
        self.real(out, array)


@pytest.fixture
def gate(monkeypatch):
    made = Gate(streams.make_copy)
    monkeypatch.setattr(streams, "make_copy", made)
    yield made
    made.open.set()


def value(size=1000, start=0):
    return leased(np.arange(start, start + size, dtype=np.float64), "sim:0")


def test_the_source_lives_until_its_copy_is_made(gate):  # case B10
    policy = save_on_cpu()
    array = value()
    storage = storage_of(array)
    handle = save(policy, array)
    del array
    assert storage() is not None
    gate.open.set()
    policy.synchronize()
    assert storage() is None
    assert (handle.load() == np.arange(1000)).all()


def test_what_a_copy_will_fill_shows_that_it_is_not_there_yet(gate):  # case B11
    out, array = leased(np.zeros(10)), value(10)
    event = SimStream("test").copy(out, array)
    assert not event.done()
    assert (out.view(np.uint8) == 0xA5).all()
    gate.open.set()
    assert event.wait()
    assert (out == array).all()


def test_a_value_whose_copy_is_under_way_is_taken_back(gate):  # cases B11, B16, spec 5.5
    policy = save_on_cpu()
    array = value()
    handle = save(policy, array)
    assert_same(handle.load(), array)
    assert gate.made == 0
    gate.open.set()
    policy.synchronize()
    assert_same(handle.load(), array)


def test_a_write_while_the_copy_is_under_way_is_noticed(gate):
    policy = save_on_cpu()
    x = stowgrad.ones(10, device="sim:0", requires_grad=True)
    with policy:
        h = x * 1
        y = h * h
    with stowgrad.no_grad():
        h += 100
    gate.open.set()
    with pytest.raises(RuntimeError, match="modified by an inplace operation while it was being copied"):
        y.sum().backward()


def test_a_write_after_the_copy_was_made_changes_nothing():
    policy = save_on_cpu()
    x = stowgrad.ones(10, device="sim:0", requires_grad=True)
    with policy:
        h = x * 1
        y = h * h
    policy.synchronize()
    with stowgrad.no_grad():
        h += 100
    y.sum().backward()
    assert (x.grad.cpu().numpy() == 2).all()


def test_a_copy_that_fails_leaves_the_value_on_the_device(gate):
    policy = save_on_cpu()
    gate.error = RuntimeError("copy engine on fire")
    gate.open.set()
    x = stowgrad.ones(10, device="sim:0", requires_grad=True)
    with policy:
        h = x * 1
        y = h * h
        while not policy._links[0].stage._under_way[0].poll():
            pass
        with pytest.raises(RuntimeError, match="its value is still on the device: copy engine on fire"):
            (h * 3).sin()
        gate.error = None
        z = h.sin()
    (y + z).sum().backward()
    assert np.allclose(x.grad.cpu().numpy(), 2 + np.cos(1))


def test_synchronize_raises_what_failed(gate):
    policy = save_on_cpu()
    gate.error = RuntimeError("copy engine on fire")
    gate.open.set()
    handle = save(policy, value())
    with pytest.raises(RuntimeError, match="copy engine on fire"):
        policy.synchronize()
    policy.synchronize()
    assert (handle.load() == np.arange(1000)).all()


def test_a_stage_after_the_copy_waits_for_it(gate, tmp_path):  # case B11
    policy = save_on_cpu() | save_on_disk(tmp_path, min_bytes=0, in_memory=True)
    array = value()
    handles = []
    thread = threading.Thread(target=lambda: handles.append(save(policy, array)))
    thread.start()
    thread.join(0.05)
    assert not handles
    gate.open.set()
    thread.join()
    policy.synchronize()
    assert handles[0].policy == "cpu | disk"
    assert_same(handles[0].load(), array)


def test_no_more_bytes_are_under_way_than_the_window_has(gate):
    policy = save_on_cpu(window=20_000)
    gate.open.set()
    stage = policy._links[0].stage
    for number in range(10):
        save(policy, value(start=number))
        assert sum(copy.nbytes for copy in stage._under_way) <= 20_000


def test_values_come_back_before_they_are_needed():
    policy = save_on_cpu(window=40_000)
    arrays = [value(start=number) for number in range(12)]
    handles = [save(policy, array) for array in arrays]
    policy.synchronize()
    handles[11].load()
    copies = [handle._piece.payload.undo[-1].note for handle in handles]
    assert [copy.ahead is not None for copy in copies] == [False] * 6 + [True] * 5 + [False]
    for number in reversed(range(11)):
        assert_same(handles[number].load(), arrays[number])
    handles[11].load()  # a second pass through a retained graph
    assert copies[10].ahead is not None
    handles[3].load()
    # the next four may be the other values of the same node; the rest was passed and makes room
    assert [number for number in range(12) if copies[number].ahead is not None] == [0, 1, 2, 6, 7]
    handles[2].load()
    handles[1].load()
    assert [number for number in range(12) if copies[number].ahead is not None] == [0]


def test_what_was_copied_back_early_becomes_the_value():
    policy = save_on_cpu()
    arrays = [value(size, start=size) for size in (30_000, 30_000)]
    handles = [save(policy, array) for array in arrays]
    policy.synchronize()
    handles[1].load()
    ahead = handles[0]._piece.payload.undo[-1].note.ahead
    assert all(event.wait() for event in ahead._events)
    (buffer,) = ahead.buffers
    with pool("sim:0").peak_scope() as scope:
        loaded = handles[0].load()
    assert scope.peak_bytes == scope.begin_bytes
    assert np.shares_memory(loaded, buffer)
    assert_same(loaded, arrays[0])
    storage = storage_of(buffer)
    del loaded, buffer, ahead
    assert storage() is None
    assert_same(handles[0].load(), arrays[0])


def test_copies_back_that_nobody_needs_are_over_after_synchronize(gate):
    policy = save_on_cpu()
    gate.open.set()
    handles = [save(policy, value(start=number)) for number in range(3)]
    policy.synchronize()
    gate.open.clear()
    before = memory_allocated("sim:0")
    handles[2].load()
    assert memory_allocated("sim:0") > before  # two others are on their way
    del handles
    threading.Timer(0.05, gate.open.set).start()
    policy.synchronize()
    assert memory_allocated("sim:0") == before


def test_a_value_that_a_later_op_saves_as_well_comes_back_for_both():
    policy = save_on_cpu(window=40_000)
    arrays = [value(start=number) for number in range(12)]
    handles = [save(policy, array) for array in arrays]
    again = save(policy, arrays[2], "later")  # the input of a skip connection
    last = save(policy, value())
    policy.synchronize()
    last.load()
    copies = [handle._piece.payload.undo[-1].note for handle in handles]
    assert copies[2].ahead is not None
    assert_same(again.load(), arrays[2])
    for number in reversed(range(12)):
        assert number == 11 or copies[number].ahead is not None, number
        assert_same(handles[number].load(), arrays[number])


def test_memory_of_copies_under_way_comes_back_before_anything_is_refused(gate):
    gate.open.set()
    policy = save_on_cpu(window=40_000)
    handles = [save(policy, value(start=number)) for number in range(12)]
    policy.synchronize()
    handles[11].load()  # copies five of the others back
    gate.open.clear()
    handles.append(save(policy, value(start=12)))
    threading.Timer(0.1, gate.open.set).start()
    of = pool("sim:0")
    try:
        of.set_limit(of.held_bytes())
        value(6000)
        with pytest.raises(MemoryBudgetError):
            value(12_000)
    finally:
        of.set_limit(None)
    assert [handle.load()[0] for handle in handles] == list(range(13))


def test_copies_in_that_fail_are_made_again(gate):
    policy = save_on_cpu()
    gate.open.set()
    handles = [save(policy, value(start=number)) for number in range(3)]
    policy.synchronize()
    gate.error = RuntimeError("copy engine on fire")
    assert handles[2].load()[0] == 2
    assert handles[1].load()[0] == 1
    assert handles[0].load()[0] == 0


def test_a_thread_that_died_with_its_copy_is_no_end(monkeypatch):
    def die(out, array):
        raise SystemExit

    policy = save_on_cpu()
    with monkeypatch.context() as patch:
        patch.setattr(streams, "make_copy", die)
        handle = save(policy, value())
        with pytest.raises(RuntimeError, match="save_on_cpu: an earlier copy"):
            policy.synchronize()
    assert (handle.load() == np.arange(1000)).all()
    assert (save(policy, value()).load() == np.arange(1000)).all()


def test_pinned_memory_has_a_cap_and_plain_memory_is_used_beyond_it():  # case B13
    policy = save_on_cpu(pin_memory=True, device_type="sim", pinned_limit=20_000)
    before = pool("cpu").bytes_by_category()["saved_packed"]
    handles = [save(policy, value()) for _ in range(3)]
    pinned = policy._links[0].stage.pinned
    assert (pinned.used_bytes, pinned.plain_bytes) == (16_000, 8_000)
    assert pool("cpu").bytes_by_category()["saved_packed"] - before == 24_000
    policy.synchronize()
    del handles
    assert pinned.used_bytes == 0
    assert any("beyond the limit of pinned memory" in text for text in policy.report().without_effect)


def test_pinned_memory_that_is_for_another_device_is_said_to_have_had_no_effect():
    policy = save_on_cpu(pin_memory=True)
    handle = save(policy, value())
    assert (handle.load() == np.arange(1000)).all()
    save(policy, value(), "op")
    assert any("pin_memory=True: no value was on a device of type cuda" in t for t in policy.report().without_effect)


def test_without_a_window_copies_are_waited_for(gate):
    policy = save_on_cpu(window=0)
    array = value()
    handle = save(policy, array)
    assert_same(handle.load(), array)
    assert gate.made == 0


def test_a_training_step_gives_the_plain_gradients_and_frees_all():
    def step(policy):
        x = stowgrad.tensor(np.linspace(-1, 1, 3000), device="sim:0", requires_grad=True)
        with policy:
            y = x
            for _ in range(30):
                y = (y.sin() * y).exp() - 1
        y.sum().backward()
        return x.grad.cpu().numpy().copy()

    policy = save_on_cpu(window=100_000)
    expected = step(stowgrad.enable_grad())
    gc.collect()
    before = memory_allocated("sim:0"), memory_allocated("cpu")
    assert step(policy).tobytes() == expected.tobytes()
    policy.synchronize()
    # less, where the background of another test has only ended now
    assert memory_allocated("sim:0") <= before[0]
    assert memory_allocated("cpu") <= before[1]
