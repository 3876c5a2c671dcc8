"""The recorder against one that copies everything at every event."""

from __future__ import annotations

import gc
import json
import threading
from datetime import UTC, datetime

import hypothesis
import jsonschema
import numpy as np
import pytest
from hypothesis import strategies as st

from stowgrad.memory import CATEGORIES, Device, events, pool
from stowgrad.profiler import accounts, build, json_format, memory_profile
from stowgrad.profiler.recorder import Recorder

DEVICES = ("sim:7", "sim:8")
BYTE = np.dtype(np.uint8)
PHASES = ("forward", "backward", "optimizer", "nonsense")

PROGRAMS = st.lists(
    st.one_of(
        st.tuples(
            st.just("lease"), st.integers(0, 9000), st.sampled_from(CATEGORIES), st.sampled_from(DEVICES), st.booleans()
        ),
        st.tuples(st.just("free"), st.integers(0, 99)),
        st.tuples(st.just("relabel"), st.integers(0, 99), st.sampled_from(CATEGORIES)),
        st.tuples(st.just("begin"), st.sampled_from(PHASES)),
        st.tuples(st.just("end"), st.sampled_from(PHASES)),
    ),
    min_size=10,
    max_size=60,
)


class BruteForce:
    """Live sets as plain dictionaries, copied whenever a phase has a new maximum."""

    def __init__(self):
        self.live = {device: {} for device in DEVICES}
        self.step = 0
        self.default = "setup"
        self.stack = []
        self.peaks = {}
        self.best = dict.fromkeys(DEVICES, (0, (0, "setup"), {}))
        self.seen = set()

    def key(self):
        return self.step, self.stack[-1] if self.stack else self.default

    def look(self, device, allocated=False):
        live = self.live[device]
        total = sum(size for size, _ in live.values())
        known = self.peaks.get((device, *self.key()))
        is_new = known is None or total > known
        if is_new:
            self.peaks[device, *self.key()] = total
        best, (step, _), _ = self.best[device]
        if total > best or (allocated and is_new and total == best and self.step != step):
            self.best[device] = (total, self.key(), dict(live))

    def look_everywhere(self):
        for device in self.seen:
            self.look(device)

    def end(self, name):
        name = name if name != "nonsense" else "other"
        if name not in self.stack:
            return
        del self.stack[len(self.stack) - 1 - self.stack[::-1].index(name)]
        if name == "backward" and "backward" not in self.stack:
            self.default = "other"
        if name == "forward" and not self.stack:
            self.default = "forward"
        if name == "optimizer":
            self.step += 1
            self.default = "setup"
        self.look_everywhere()


def run(program, recorder, brute):
    arrays = []
    for what, *rest in program:
        if what == "lease":
            nbytes, category, device, adopted = rest
            brute.seen.add(device)
            if adopted:
                array = np.empty(nbytes, np.uint8)
                storage = pool(Device(device)).adopt(array, category)
            else:
                array, storage = pool(Device(device)).lease((nbytes,), BYTE, category)
            arrays.append((array, storage))
            brute.look(device)  # the phase begins with what was there
            brute.live[device][storage.id] = (nbytes, category)
            brute.look(device, allocated=True)
            del array
        elif not arrays and what in ("free", "relabel"):
            continue
        elif what == "free":
            storage = arrays.pop(rest[0] % len(arrays))[1]
            del brute.live[str(storage.device)][storage.id]
        elif what == "relabel":
            storage = arrays[rest[0] % len(arrays)][1]
            pool(storage.device).relabel(storage, rest[1])
            brute.live[str(storage.device)][storage.id] = (storage.nbytes, rest[1])
        elif what == "begin":
            recorder.begin("phase", rest[0])
            brute.stack.append(rest[0] if rest[0] != "nonsense" else "other")
            brute.look_everywhere()
        else:
            recorder.end("phase", rest[0])
            brute.end(rest[0])


def check_sums(report):
    assert sum(report.peak.by_category.values()) == report.peak.nbytes
    assert sum(block.nbytes for block in report.peak.live) == report.peak.nbytes
    for phase in report.phases:
        assert sum(phase.by_category.values()) == phase.peak_bytes


@hypothesis.given(PROGRAMS, st.sampled_from([0, 3, 4096]))
def test_peaks_and_live_sets_equal_those_of_a_recorder_that_copies_everything(program, journal):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounts, "_SHORTEST_JOURNAL", journal)
        recorder, brute = Recorder(), BruteForce()
        recorder.start()
        run(program, recorder, brute)
        recorder.stop()
    found = {
        (str(record.device), record.step, record.phase): record.peak_bytes
        for record in recorder.book.records()
        if str(record.device) in DEVICES
    }
    assert {key: n for key, n in found.items() if n} == {key: n for key, n in brute.peaks.items() if n}
    for device, account in recorder.book.accounts.items():
        if str(device) not in DEVICES:
            continue
        total, key, live = brute.best[str(device)]
        assert account.peak == total
        at_peak = account.at_peak(recorder.book.live)
        assert {id_: (block.nbytes, category) for id_, (block, category) in at_peak.items()} == live
        if total:
            assert (account.peak_record.step, account.peak_record.phase) == key
        assert account.used == sum(block.nbytes for block in recorder.book.live.values() if block.device is device)


@hypothesis.given(PROGRAMS)
@hypothesis.settings(max_examples=25)
def test_the_report_adds_up_and_survives_a_round_trip(program):
    validator = jsonschema.Draft202012Validator(json.loads(json_format.schema_text()))
    recorder = Recorder()
    recorder.start()
    run(program, recorder, BruteForce())
    recorder.stop()
    report = build.build_report(recorder, ["python", "x.py"], datetime.now(UTC), 0)
    check_sums(report)
    validator.validate(json_format.to_dict(report))
    assert json_format.load(json_format.dump(report)) == report


def test_two_runs_give_the_same_figures():
    def once():
        with memory_profile() as prof:
            arrays = [pool("sim:7").lease((n,), BYTE) for n in (5, 700, 60_000)]
            arrays.pop()
            arrays.append(pool("sim:7").lease((60_001,), BYTE, "temporary"))
        report = prof.report()
        return report.peak.nbytes, [
            (p.step, p.phase, p.begin_bytes, p.peak_bytes, p.by_category) for p in report.phases
        ]

    assert once() == once()


def test_worker_threads_lose_no_byte():
    with memory_profile() as prof:

        def work():
            for size in range(1, 400):
                array, storage = pool("sim:7").lease((size,), BYTE, "temporary")
                pool("sim:7").relabel(storage, "activation")
                with events.span("op", "work"):
                    kept.append(pool("sim:7").lease((3,), BYTE))
                del array, storage

        kept = []
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    check_sums(prof.report())
    assert prof._recorder.book.live  # what was kept
    account = prof._recorder.book.accounts[Device("sim:7")]
    assert account.used == pool("sim:7").used_bytes() == 4 * 399 * 3
    assert not prof._recorder._queue


def test_a_collection_inside_the_recorder_loses_no_byte():
    class Cycle:
        def __init__(self):
            self.me = self
            self.array = pool("sim:7").lease((10,), BYTE)[0]

    with memory_profile() as prof:
        for _ in range(3000):  # garbage that the collector finds whenever it likes, also inside the recorder
            Cycle()
        gc.collect()
    check_sums(prof.report())
    assert prof._recorder.book.accounts[Device("sim:7")].used == pool("sim:7").used_bytes() == 0


def test_an_event_that_a_signal_interrupts_is_processed_again():
    class Interrupting(accounts.Account):
        strikes = 1

        def rises(self, block):
            if Interrupting.strikes:
                Interrupting.strikes -= 1
                raise KeyboardInterrupt
            return super().rises(block)

    recorder = Recorder()
    recorder.start()
    device = Device("sim:8")
    recorder.book.accounts[device] = Interrupting(device)
    with pytest.raises(KeyboardInterrupt):
        pool(device).lease((7,), BYTE)
    array, _ = pool(device).lease((100,), BYTE)
    recorder.stop()
    report = build.build_report(recorder, [], datetime.now(UTC), 130)
    check_sums(report)
    assert report.peak_bytes(device="sim:8") >= 100
    del array


def test_memory_of_the_recorder_stays_bounded():
    recorder = Recorder()
    recorder.start()
    peak = pool("sim:7").lease((100_000,), BYTE)
    del peak
    for _ in range(accounts._SHORTEST_JOURNAL * 2):
        pool("sim:7").lease((1,), BYTE)
    account = recorder.book.accounts[Device("sim:7")]
    assert account.journal is None or len(account.journal) <= accounts._SHORTEST_JOURNAL + 1
    assert [block.nbytes for block, _ in account.at_peak(recorder.book.live).values()] == [100_000]
    recorder.stop()


def test_of_very_many_steps_the_highest_and_the_latest_are_kept(monkeypatch):
    monkeypatch.setattr(accounts, "_MOST_RECORDS", 10)
    with memory_profile() as prof:
        for number in range(200):
            array = pool("sim:7").lease((1000 if number == 17 else 10,), BYTE)
            with events.span("phase", "optimizer"):
                pass
            del array
    report = prof.report()
    assert len(report.phases) < 60
    assert report.overhead.dropped_phases > 300
    assert report.steps == 200
    assert report.worst("setup", "sim:7").step == 17
    assert report.phases[-1].step >= 199
