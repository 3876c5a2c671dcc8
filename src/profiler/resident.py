"""The process's resident memory beside what is tracked."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter_ns

import psutil

from ..memory import Device, MemoryPool, pool
from ..memory.storage import UserStorage
from .model import Resident

_HOST = ("cpu", "sim")  # simulated devices lie in host memory
_EVERY_NS = 20_000_000


class ResidentSampler:
    """Samples of the resident set size; kept is the one with most tracked bytes, the nearest to the peak.

    A sample costs about 20 us, so that one every 20 ms at most stays below a thousandth of the time.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._next = 0
        self._samples = 0
        self._rss_peak = 0
        self._highest: tuple[int, int, int] | None = None  # tracked, slack, rss
        self.reserved: dict[Device, int] = {}  # the most that a device's pool held, of all samples

    def sample(self, devices: Iterable[Device], *, now: int | None = None) -> None:
        """Take a sample, unless the last one is too recent; without ``now`` in any case."""
        if now is not None and now < self._next:
            return
        rss = int(self._process.memory_info().rss)
        self._samples += 1
        self._rss_peak = max(self._rss_peak, rss)
        devices = tuple(devices)
        for device in devices:
            self.reserved[device] = max(self.reserved.get(device, 0), pool(device).total_bytes())
        pools = [pool(device) for device in devices if device.type in _HOST]
        tracked = sum(of.used_bytes() for of in pools)
        if self._highest is None or tracked > self._highest[0]:
            taken = sum(of.total_bytes() + _user_bytes(of) for of in pools)
            self._highest = tracked, taken - tracked, rss
        self._next = perf_counter_ns() + _EVERY_NS

    def report(self) -> Resident | None:
        """What the samples say, or None without any."""
        if self._highest is None:
            return None
        tracked, slack, rss = self._highest
        return Resident(rss, tracked, slack, self._rss_peak, self._samples)


def _user_bytes(of: MemoryPool) -> int:
    """Memory of the user that a pool counts as live, but not as taken."""
    return sum(storage.nbytes for storage in of.live() if isinstance(storage, UserStorage))
