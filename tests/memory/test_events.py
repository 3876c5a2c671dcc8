"""The event stream: who is told what."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from stowgrad.memory import events

BYTE = np.dtype(np.uint8)


class Log(events.Observer):
    def __init__(self):
        self.entries = []

    def allocated(self, storage):
        self.entries.append(("allocated", storage.nbytes, storage.category))

    def freed(self, storage):
        self.entries.append(("freed", storage.nbytes, storage.category))

    def relabelled(self, storage, old_category):
        self.entries.append(("relabelled", old_category, storage.category))

    def begin(self, kind, name, subject=None):
        self.entries.append(("begin", kind, name, subject))

    def end(self, kind, name):
        self.entries.append(("end", kind, name))


@pytest.fixture
def log():
    gc.collect()
    observer = Log()
    events.add_observer(observer)
    yield observer.entries
    events.remove_observer(observer)


def test_nobody_watches_at_first():
    assert events.observers == ()


def test_a_lease_and_its_end_are_told(pool, log):
    array, _ = pool.lease((100,), BYTE)
    del array
    assert pool.used_bytes() == 0  # whoever asks makes the pool look at what has died
    assert log == [("allocated", 100, "activation"), ("freed", 100, "activation")]


def test_an_adoption_and_its_end_are_told(pool, log):
    array = np.empty(100, BYTE)
    pool.adopt(array, "gradient")
    del array
    assert pool.used_bytes() == 0  # whoever asks makes the pool look at what has died
    assert log == [("allocated", 100, "gradient"), ("freed", 100, "gradient")]


def test_a_user_s_memory_is_told(pool, log):
    array = np.empty(100, BYTE)
    pool.adopt_user(array, 100)
    del array
    assert pool.used_bytes() == 0  # whoever asks makes the pool look at what has died
    assert log == [("allocated", 100, "input"), ("freed", 100, "input")]


def test_a_charge_is_told(pool, log):
    with pool.charge(100):
        pass
    assert pool.used_bytes() == 0
    assert log == [("allocated", 100, "temporary"), ("freed", 100, "temporary")]


def test_a_relabel_is_told_once(pool, log):
    array, storage = pool.lease((100,), BYTE)
    log.clear()
    pool.relabel(storage, "parameter")
    pool.relabel(storage, "parameter")
    assert log == [("relabelled", "activation", "parameter")]
    assert array.size == 100


def test_counters_are_right_when_an_observer_is_told(pool):
    seen = []

    class Reads(events.Observer):
        def allocated(self, storage):
            seen.append(pool.used_bytes())

        def freed(self, storage):
            seen.append(pool.used_bytes())

    observer = Reads()
    events.add_observer(observer)
    array, _ = pool.lease((100,), BYTE)
    del array
    assert pool.used_bytes() == 0
    events.remove_observer(observer)
    assert seen == [100, 0]


def test_an_observer_is_added_once(pool, log):
    events.add_observer(events.observers[-1])
    with pool.charge(1):
        pass
    assert pool.used_bytes() == 0
    assert len(log) == 2


def test_removing_who_is_not_there_is_harmless():
    events.remove_observer(events.Observer())
    assert events.observers == ()


def test_a_span_is_told(log):
    with events.span("phase", "forward", "subject"):
        log.append("inside")
    assert log == [("begin", "phase", "forward", "subject"), "inside", ("end", "phase", "forward")]


def test_a_span_ends_with_an_exception(log):
    with pytest.raises(KeyError), events.span("phase", "forward"):
        raise KeyError
    assert log[-1] == ("end", "phase", "forward")


def test_who_comes_inside_a_span_is_not_told_of_its_end():
    observer = Log()
    with events.span("phase", "forward"):
        events.add_observer(observer)
    events.remove_observer(observer)
    assert observer.entries == []
