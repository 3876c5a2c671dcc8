"""Which storages a recording counts: those of the devices' pools that live when it starts, and what comes after."""

from __future__ import annotations

import numpy as np

from stowgrad.memory import Device, MemoryPool, pool
from stowgrad.memory.backing import SimBacking
from stowgrad.profiler import memory_profile

DEVICE = "sim:90"
BYTE = np.dtype(np.uint8)


def peaks_of_the_device(report):
    return [phase.peak_bytes for phase in report.phases if phase.device == DEVICE]


def test_what_dies_while_the_recording_starts_is_not_counted(monkeypatch):
    array, storage = pool(DEVICE).lease((1000,), BYTE)
    held = [array]
    del array

    class Dying:
        def values(self):
            held.clear()  # as the cyclic collector may, at any time
            return [storage]

    monkeypatch.setattr("stowgrad.profiler.recorder.live_storages", Dying())
    with memory_profile() as prof:
        pass
    assert max(peaks_of_the_device(prof.report()), default=0) == 0


def test_what_lives_when_the_recording_starts_is_counted():
    array, _ = pool(DEVICE).lease((1000,), BYTE)
    with memory_profile() as prof:
        del array
    assert max(peaks_of_the_device(prof.report())) == 1000


def test_pools_that_are_no_devices_are_not_counted():
    own = MemoryPool(Device(DEVICE), SimBacking())
    before, _ = own.lease((1000,), BYTE)
    with memory_profile() as prof:
        during, _ = own.lease((1000,), BYTE)
    assert max(peaks_of_the_device(prof.report()), default=0) == 0
    assert len(before) == len(during)
