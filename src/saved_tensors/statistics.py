"""What a policy has done so far, in sum and for each call site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from .payload import Payload, Site

# More call sites than this are counted as one: code that is made while the program runs has no end of them.
_MOST_SITES = 10_000


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
        kept_because: the same by reason, such as ``"parameter or buffer"``, ``"small"`` or ``"stays alive anyway"``.
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
    kept_because: Mapping[str, int]
    shared: int
    shadowed: int
    loads: int
    pack_seconds: float
    unpack_seconds: float
    live_count: int
    live_resident_bytes: int
    live_offloaded_bytes: int


class SiteFigures:
    """What a policy did with the values of one call site."""

    __slots__ = ("count", "did", "kept", "loads", "packed_bytes", "raw_bytes", "seconds", "shared", "unpack_seconds")

    def __init__(self) -> None:
        self.count = 0
        self.raw_bytes = 0
        self.packed_bytes = 0
        self.shared = 0
        self.loads = 0
        self.seconds = 0.0
        self.unpack_seconds = 0.0
        self.did: dict[str, int] = {}
        self.kept: dict[str, int] = {}


class Counters:
    """The running figures behind `PolicyStatistics`, and those of each call site."""

    def __init__(self) -> None:
        self.count = 0
        self.raw_bytes = 0
        self.resident_bytes = 0
        self.offloaded_bytes = 0
        self.where: dict[str, int] = {}
        self.kept_because: dict[str, int] = {}
        self.shared = 0
        self.shadowed = 0
        self.loads = 0
        self.pack_seconds = 0.0
        self.unpack_seconds = 0.0
        self.live_count = 0
        self.live_resident_bytes = 0
        self.live_offloaded_bytes = 0
        self._sites: dict[Site, SiteFigures] = {}

    def snapshot(self) -> PolicyStatistics:
        """The figures as they are now."""
        figures = {name: value for name, value in vars(self).items() if not name.startswith("_")}
        figures |= {"where": MappingProxyType(dict(self.where))}
        because = dict(self.kept_because)
        figures |= {"kept_because": MappingProxyType(because), "kept": sum(because.values())}
        return PolicyStatistics(**figures)

    def sites(self) -> dict[Site, SiteFigures]:
        """The figures of each call site."""
        return dict(self._sites)

    def at(self, site: Site) -> SiteFigures:
        """The figures of a call site, to be added to."""
        found = self._sites.get(site)
        if found is None:
            if len(self._sites) >= _MOST_SITES:
                site = Site("others", "", "", None)
            found = self._sites.setdefault(site, SiteFigures())
        return found

    def keep(self, site: Site, reason: str, nbytes: int, seconds: float) -> None:
        """Count a value that is left as it is."""
        self.kept_because[reason] = self.kept_because.get(reason, 0) + 1
        figures = self.at(site)
        figures.kept[reason] = figures.kept.get(reason, 0) + 1
        figures.raw_bytes += nbytes
        self._took(figures, seconds)

    def share(self, site: Site, seconds: float) -> None:
        """Count a value that was found in data packed before."""
        self.shared += 1
        figures = self.at(site)
        figures.shared += 1
        self._took(figures, seconds)

    def packed(self, site: Site, label: str, seconds: float) -> None:
        """Count the time of a value that `Stored` counts."""
        figures = self.at(site)
        figures.did[label] = figures.did.get(label, 0) + 1
        self._took(figures, seconds)

    def _took(self, figures: SiteFigures, seconds: float) -> None:
        self.pack_seconds += seconds
        figures.seconds += seconds


class Stored:
    """One packed piece in the counters of the policies that packed it; its death takes it out of the live ones."""

    __slots__ = ("_counters", "_site", "offloaded_bytes", "resident_bytes")

    def __init__(self, counters: tuple[Counters, ...], raw_bytes: int, payload: Payload, site: Site) -> None:
        self._counters: tuple[Counters, ...] = ()
        packed_bytes = payload.nbytes
        place = str(payload.place or payload.buffers[0].place)
        self.resident_bytes = packed_bytes if payload.place is payload.device else 0
        self.offloaded_bytes = packed_bytes - self.resident_bytes
        self._site = site
        for of in counters:
            of.count += 1
            of.raw_bytes += raw_bytes
            of.resident_bytes += self.resident_bytes
            of.offloaded_bytes += self.offloaded_bytes
            of.where[place] = of.where.get(place, 0) + packed_bytes
            self._counters = (*self._counters, of)
            of.live_count += 1
            of.live_resident_bytes += self.resident_bytes
            of.live_offloaded_bytes += self.offloaded_bytes
            figures = of.at(site)
            figures.count += 1
            figures.raw_bytes += raw_bytes
            figures.packed_bytes += packed_bytes

    def loaded(self, seconds: float) -> None:
        """Count one unpacking."""
        for of in self._counters:
            of.loads += 1
            of.unpack_seconds += seconds
            figures = of.at(self._site)
            figures.loads += 1
            figures.unpack_seconds += seconds

    def __del__(self) -> None:
        for of in getattr(self, "_counters", ()):  # Ctrl-C may have come before it was counted
            of.live_count -= 1
            of.live_resident_bytes -= self.resident_bytes
            of.live_offloaded_bytes -= self.offloaded_bytes
