"""The report of a memory profile as data: what renderers, files and tests read.

All sizes are bytes, all times nanoseconds since the recording began. Everything here is immutable and knows nothing of
tensors, so that a report read from a file is the same as one just recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

DISK = "disk"  # the device that stands for what savers keep in files
PHASES = ("setup", "forward", "recompute", "backward", "optimizer", "eval", "other")


@dataclass(frozen=True)
class Site:
    """A line of source code: file relative to the working directory, line from 1, qualified name of the function."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class PeakAt:
    """Where a phase reached its peak: op (or node of the graph, or empty at the start of the phase), module, line."""

    t_ns: int
    op: str
    module: str
    site: Site | None = None


@dataclass(frozen=True)
class PhasePeak:
    """One phase of one step on one device.

    Attributes:
        begin_bytes: live when the phase was first entered.
        peak_bytes: the most that was live while it was the innermost phase.
        active_ns: how long it was the innermost phase; less than ``end_ns - begin_ns`` where another one interrupts it,
            as recompute does with backward.
        by_category: what was live at the peak; adds up to ``peak_bytes``.
    """

    device: str
    step: int
    phase: str
    begin_ns: int
    end_ns: int
    active_ns: int
    begin_bytes: int
    peak_bytes: int
    by_category: Mapping[str, int]
    at: PeakAt


@dataclass(frozen=True)
class Holder:
    """What keeps a block alive: kind is module, optimizer, saved_tensor, engine, python or unknown."""

    kind: str
    what: str
    site: Site | None = None


@dataclass(frozen=True)
class LiveBlock:
    """A storage that was live at the peak; step, phase, op, module and site are those of its allocation."""

    id: int
    nbytes: int
    category: str
    name: str
    module: str
    op: str
    site: Site | None
    step: int
    phase: str
    held_by: tuple[Holder, ...]
    is_older: bool = False  # than the recording
    stack: tuple[Site, ...] = ()  # the user's frames, innermost first: more than ``site`` in mode "all" only


@dataclass(frozen=True)
class Peak:
    """The highest point of a device; ``by_category`` and ``live`` each add up to ``nbytes``."""

    device: str
    step: int
    phase: str
    nbytes: int
    at: PeakAt
    by_category: Mapping[str, int]
    live: tuple[LiveBlock, ...]


@dataclass(frozen=True)
class SavedRow:
    """What one op in one module kept for backward under one slot and policy.

    Attributes:
        count: how many values.
        raw_bytes: their size as tensors.
        resident_bytes: what was kept in memory for them; a value that shares another's memory adds nothing.
        offloaded_bytes: what was kept elsewhere.
        unpacks: how often a packed value was read.
        shared_bytes: what was kept already by other saves of the same step.
        shared_with: the number of the row in `Saved.rows` that counts such memory, if it is another one.
        shape, dtype: of each value; None and empty where they differ.
        site: the user's line that saved the first of them.
    """

    module: str
    op: str
    slot: str
    policy: str
    count: int
    raw_bytes: int
    resident_bytes: int
    offloaded_bytes: int
    pack_ns: int
    unpack_ns: int
    unpacks: int
    shared_bytes: int = 0
    shared_with: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    site: Site | None = None


@dataclass(frozen=True)
class Saved:
    """What one step kept for backward; ``rows`` is empty in mode "peaks", the totals are not."""

    step: int
    count: int = 0
    raw_bytes: int = 0
    resident_bytes: int = 0
    offloaded_bytes: int = 0
    pack_ns: int = 0
    unpack_ns: int = 0
    rows: tuple[SavedRow, ...] = ()


@dataclass(frozen=True)
class Boundary:
    """The moment at which forward ends and backward begins, in the step that `Saved` is about.

    Attributes:
        forward_end_bytes: live on the device at that moment.
        saved_raw_bytes, saved_resident_bytes: kept for this backward, as tensors and as memory, on all devices.
        backward_peak_bytes: the highest point of the backward that follows, recomputation included.
    """

    step: int
    forward_end_bytes: int
    saved_raw_bytes: int
    saved_resident_bytes: int
    backward_peak_bytes: int


@dataclass(frozen=True)
class DeviceUse:
    """A device over the whole recording.

    Attributes:
        total_bytes: the memory that it has, where known.
        budget_bytes: the limit of its pool, or None.
        tracked_peak_bytes: the most bytes of live storages.
        begin_bytes: live when the recording began.
        reserved_peak_bytes: the most that its pool held of the device's memory, in use or not, of all samples.
    """

    id: str
    tracked_peak_bytes: int
    total_bytes: int | None = None
    budget_bytes: int | None = None
    begin_bytes: int = 0
    reserved_peak_bytes: int | None = None


@dataclass(frozen=True)
class Resident:
    """The process's memory at the sample with most tracked bytes: ``tracked + pool_slack + untracked == rss``.

    Attributes:
        rss_bytes: resident set size as the system counts it.
        tracked_bytes: live storages of the host (and of simulated devices, which lie in host memory too).
        pool_slack_bytes: what their pools hold beyond that: cached blocks and rounding.
        rss_peak_bytes: the highest resident set size of all samples.
        samples: how many samples were taken.
    """

    rss_bytes: int
    tracked_bytes: int
    pool_slack_bytes: int
    rss_peak_bytes: int
    samples: int

    @property
    def untracked_bytes(self) -> int:
        """The interpreter, libraries and everything else; negative while leased pages have not been written yet."""
        return self.rss_bytes - self.tracked_bytes - self.pool_slack_bytes


@dataclass(frozen=True)
class Overhead:
    """What the recording itself cost."""

    events: int
    profiler_ns: int
    profiler_bytes: int
    dropped_phases: int = 0
    dropped_events: int = 0


@dataclass(frozen=True)
class Leak:
    """Blocks from one place that outlived their steps: there is more of them with every step.

    Attributes:
        nbytes: of all of them at the end of the last step.
        count: how many there were.
        steps: the steps that they are from.
        name: what one of them is.
        held_by: who holds the largest.
    """

    nbytes: int
    count: int
    steps: tuple[int, ...]
    category: str
    name: str
    module: str
    op: str
    site: Site | None
    held_by: tuple[Holder, ...] = ()


@dataclass(frozen=True)
class Hint:
    """What would lower the peak, and by how much: found by replaying the step's events with the change.

    Attributes:
        code: what kind of change it is: "free-variable", "free-gradients", "checkpoint", "bfloat16",
            "step-in-backward" or "all".
        text: the change in words.
        peak_before_bytes, peak_after_bytes: the step's peak, as it was and with the change.
        phase: where the peak lies then.
        is_exact: whether the replay knows all that the change does; if not, the figure is close.
    """

    code: str
    text: str
    peak_before_bytes: int
    peak_after_bytes: int
    phase: str = ""
    is_exact: bool = True


@dataclass(frozen=True)
class Timeline:
    """Live bytes of a device by category over time, thinned so that no maximum of a phase is lost."""

    device: str
    t_ns: tuple[int, ...]
    by_category: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class MemoryReport:
    """A whole profile. ``peak`` is that of the device that matters most: an accelerator if one was used."""

    version: str
    command: tuple[str, ...]
    started: str
    duration_ns: int
    record: str
    steps: int
    devices: tuple[DeviceUse, ...]
    phases: tuple[PhasePeak, ...]
    peak: Peak
    saved: Saved
    overhead: Overhead
    boundary: Boundary | None = None
    resident: Resident | None = None
    exit_code: int | None = None
    leaks: tuple[Leak, ...] = ()
    hints: tuple[Hint, ...] = ()
    timeline: Timeline | None = None
    platform: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def worst(self, phase: str, device: str | None = None) -> PhasePeak | None:
        """The highest record of a phase over all steps, on one device or the highest of all; None if there is none."""
        return highest(p for p in self.phases if p.phase == phase and device in (None, p.device))

    def peak_bytes(self, phase: str | None = None, device: str | None = None) -> int:
        """The peak of a phase (of the whole recording without one), on one device or the highest of all; 0 if none.

        Files are no memory: what they hold counts only if ``device="disk"`` asks for it.
        """
        if phase is not None:
            found = self.worst(phase, device)
            return 0 if found is None else found.peak_bytes
        wanted = (d for d in self.devices if d.id == device or (device is None and d.id != DISK))
        return max((d.tracked_peak_bytes for d in wanted), default=0)

    def __str__(self) -> str:
        return f"<MemoryReport: peak {self.peak.nbytes:,} bytes on {self.peak.device} in {self.peak.phase}>"


def highest(records: Iterable[PhasePeak]) -> PhasePeak | None:
    """The last of the records with the highest peak, or None: steady steps tell more than the first one."""
    return max(reversed(list(records)), key=lambda record: record.peak_bytes, default=None)
