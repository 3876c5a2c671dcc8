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
    """Samples of the resident set size, the highest of which is kept.

    A sample costs about 20 us, so that one every 20 ms at most stays below a thousandth of the time.
    """

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._next = 0
        self._samples = 0
        self._highest: Resident | None = None

    def sample(self, devices: Iterable[Device], *, now: int | None = None) -> None:
        """Take a sample, unless the last one is too recent; without ``now`` in any case."""
        if now is not None and now < self._next:
            return
        rss = int(self._process.memory_info().rss)
        self._samples += 1
        if self._highest is None or rss > self._highest.rss_bytes:
            pools = [pool(device) for device in devices if device.type in _HOST]
            tracked = sum(of.used_bytes() for of in pools)
            taken = sum(of.total_bytes() + _user_bytes(of) for of in pools)
            self._highest = Resident(rss, tracked, taken - tracked, self._samples)
        self._next = perf_counter_ns() + _EVERY_NS

    def report(self) -> Resident | None:
        """The highest sample."""
        if self._highest is None:
            return None
        highest = self._highest
        return Resident(highest.rss_bytes, highest.tracked_bytes, highest.pool_slack_bytes, self._samples)


def _user_bytes(of: MemoryPool) -> int:
    """Memory of the user that a pool counts as live, but not as taken."""
    return sum(storage.nbytes for storage in of.live() if isinstance(storage, UserStorage))
