"""What a policy has done so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .payload import Payload


@dataclass(frozen=True, slots=True)
class PolicyStatistics:
    """What a policy has done since it was made; sizes in bytes, times in seconds.

    Attributes:
        count: values that were packed; one that shares another's data isn't counted here.
        raw_bytes: their size before.
        resident_bytes: what was kept for them in the memory of their own device.
        offloaded_bytes: what was kept for them elsewhere.
        where: the packed bytes by place, such as ``"cpu"`` or ``"disk"``.
        kept: values that the policy saw and left as they were.
        shared: values that were found in data packed before.
        shadowed: values that raw hooks inside this policy took.
        loads: how often a value was unpacked.
        pack_seconds, unpack_seconds: the time that packing and unpacking took.
        live_count, live_resident_bytes, live_offloaded_bytes: what is stored at this moment.
    """

    count: int
    raw_bytes: int
    resident_bytes: int
    offloaded_bytes: int
    where: Mapping[str, int]
    kept: int
    shared: int
    shadowed: int
    loads: int
    pack_seconds: float
    unpack_seconds: float
    live_count: int
    live_resident_bytes: int
    live_offloaded_bytes: int


class Counters:
    """The running figures behind `PolicyStatistics`."""

    def __init__(self) -> None:
        self.count = 0
        self.raw_bytes = 0
        self.resident_bytes = 0
        self.offloaded_bytes = 0
        self.where: dict[str, int] = {}
        self.kept = 0
        self.shared = 0
        self.shadowed = 0
        self.loads = 0
        self.pack_seconds = 0.0
        self.unpack_seconds = 0.0
        self.live_count = 0
        self.live_resident_bytes = 0
        self.live_offloaded_bytes = 0

    def snapshot(self) -> PolicyStatistics:
        """The figures as they are now."""
        return PolicyStatistics(**{**vars(self), "where": MappingProxyType(dict(self.where))})


class Stored:
    """One packed piece in the counters of the policies that packed it; its death takes it out of the live ones."""

    __slots__ = ("_counters", "offloaded_bytes", "resident_bytes")

    def __init__(self, counters: tuple[Counters, ...], raw_bytes: int, payload: Payload) -> None:
        packed_bytes = payload.nbytes
        place = str(payload.place or payload.buffers[0].place)
        self.resident_bytes = packed_bytes if payload.place is payload.device else 0
        self.offloaded_bytes = packed_bytes - self.resident_bytes
        self._counters = counters
        for of in counters:
            of.count += 1
            of.raw_bytes += raw_bytes
            of.resident_bytes += self.resident_bytes
            of.offloaded_bytes += self.offloaded_bytes
            of.where[place] = of.where.get(place, 0) + packed_bytes
            of.live_count += 1
            of.live_resident_bytes += self.resident_bytes
            of.live_offloaded_bytes += self.offloaded_bytes

    def loaded(self, seconds: float) -> None:
        """Count one unpacking."""
        for of in self._counters:
            of.loads += 1
            of.unpack_seconds += seconds

    def __del__(self) -> None:
        for of in self._counters:
            of.live_count -= 1
            of.live_resident_bytes -= self.resident_bytes
            of.live_offloaded_bytes -= self.offloaded_bytes
