"""Budgets of tests: what a marker asks for, what a recording measured above its start, and words for the difference.

Nothing here knows pytest: `pytest_plugin` is the part that does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..memory import format_size, parse_size
from .model import DISK, PHASES, Hint, LiveBlock, MemoryReport, PhasePeak, Saved
from .tables import flow

_LARGEST = 4
_WIDTH = 98
_HINTS = 2
_NAMES = {
    "parameter": "parameters",
    "buffer": "buffers",
    "gradient": "gradients",
    "activation": "activations",
    "saved_packed": "saved, packed",
    "optimizer_state": "optimizer state",
    "optimizer_temporary": "optimizer temporaries",
    "temporary": "temporaries",
    "input": "inputs",
}


class PhaseUse:
    """How far one phase rose above the start of the recording."""

    def __init__(self, record: PhasePeak, begin_bytes: int) -> None:
        self.record = record
        self.peak_bytes = max(record.peak_bytes - begin_bytes, 0)


@dataclass(frozen=True)
class Use:
    """What a recording used beyond what was live when it began.

    Args:
        report: the recording.
        device: the device that counts; None for the one that rose highest.
    """

    report: MemoryReport
    device: str | None = None

    @property
    def shown_device(self) -> str:
        """The device that the figures are about."""
        if self.device is not None:
            return self.device
        memory = [one for one in self.report.devices if one.id != DISK]
        return max(memory, key=lambda one: one.tracked_peak_bytes - one.begin_bytes).id

    @property
    def begin_bytes(self) -> int:
        """What was live when the recording began."""
        return next((one.begin_bytes for one in self.report.devices if one.id == self.shown_device), 0)

    @property
    def peak_bytes(self) -> int:
        """The highest point above the start."""
        return max(self.report.peak_bytes(device=self.shown_device) - self.begin_bytes, 0)

    @property
    def phases(self) -> dict[str, PhaseUse]:
        """The highest record of each phase, by its name."""
        worst = {phase: self.report.worst(phase, self.shown_device) for phase in PHASES}
        return {
            phase: PhaseUse(record, self.begin_bytes)
            for phase, record in worst.items()
            if record is not None and (record.peak_bytes > self.begin_bytes or record.active_ns)
        }

    @property
    def saved(self) -> Saved:
        """What was kept for backward in the step that the report is about."""
        return self.report.saved

    def figure(self, key: str) -> int:
        """The figure that a budget of that name is compared with: "peak", "saved" or a phase."""
        if key == "peak":
            return self.peak_bytes
        if key == "saved":
            return self.saved.resident_bytes
        use = self.phases.get(key)
        return 0 if use is None else use.peak_bytes

    def figures(self) -> dict[str, Any]:
        """What baselines keep: plain numbers."""
        return {
            "device": self.shown_device,
            "peak_bytes": self.peak_bytes,
            "saved_bytes": self.saved.resident_bytes,
            "phases": {phase: use.peak_bytes for phase, use in self.phases.items()},
            "by_category": self.by_category(),
        }

    def blocks(self) -> list[LiveBlock]:
        """What was live at the peak and had been allocated since the start, the largest first."""
        peak = self.report.peak
        return [block for block in peak.live if not block.is_older] if peak.device == self.shown_device else []

    def by_category(self) -> dict[str, int]:
        """Bytes of `blocks` by what they are, in words, the most first."""
        totals: dict[str, int] = {}
        for block in self.blocks():
            totals[_kind(block)] = totals.get(_kind(block), 0) + block.nbytes
        return dict(sorted(totals.items(), key=lambda item: -item[1]))


def _kind(block: LiveBlock) -> str:
    if block.category == "activation" and any(holder.kind == "saved_tensor" for holder in block.held_by):
        return "saved activations"
    return _NAMES.get(block.category, block.category)


@dataclass(frozen=True)
class TestBudget:
    """The most bytes that a test may use above its start.

    Attributes:
        limits: bytes, by "peak" (the whole test), "saved" (kept for backward) or a phase's name.
        device: the device that counts; None for the one that rises highest.
        max_ratio: the most that the peak may be of the baseline's peak.
        baseline: ``FILE::TEST``, where that baseline is not the test's own.
        include_setup: whether what fixtures allocate counts too.
        repeat: how often the test's function is called.
    """

    __test__ = False  # no test class, whatever pytest thinks of its name

    limits: Mapping[str, int] = field(default_factory=dict)
    device: str | None = None
    max_ratio: float | None = None
    baseline: str | None = None
    include_setup: bool = False
    repeat: int = 1


def parse_marker(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> TestBudget:
    """The budget that a marker's arguments state.

    Raises:
        TypeError, ValueError: if they state none, or one that does not exist.
    """
    options = dict(keywords)
    if len(arguments) > 1 or (arguments and "peak" in options):
        raise TypeError("memory_budget takes one size for the whole test, and others by name")
    if arguments:
        options["peak"] = arguments[0]
    device, baseline = options.pop("device", None), options.pop("baseline", None)
    max_ratio, include = options.pop("max_ratio", None), options.pop("include", "call")
    repeat = options.pop("repeat", 1)
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise ValueError(f"memory_budget(repeat=...) is a whole number of at least 1, not {repeat!r}")
    if include not in ("call", "setup"):
        raise ValueError(f'memory_budget(include=...) is "call" or "setup", not {include!r}')
    unknown = [name for name in options if name not in ("peak", "saved", *PHASES)]
    if unknown:
        raise TypeError(
            f"memory_budget has no argument {unknown[0]!r}; expected peak, saved, a phase ({', '.join(PHASES)}),"
            " device, max_ratio, baseline, include or repeat"
        )
    limits = {name: parse_size(size) for name, size in options.items()}
    if not limits and max_ratio is None:
        raise TypeError('memory_budget needs a size, as in memory_budget("64 MiB") or memory_budget(backward="64 MiB")')
    if baseline is not None and max_ratio is None:
        raise TypeError("memory_budget(baseline=...) needs max_ratio=, the most that the peak may be of that baseline")
    device = None if device is None else str(device)
    return TestBudget(limits, device, max_ratio, baseline, include == "setup", repeat)


@dataclass(frozen=True)
class Excess:
    """One budget that was passed."""

    key: str
    used: int
    limit: int
    phase: str

    def line(self) -> str:
        """The failure in one line: numbers first, since terminals cut the end."""
        more = self.used - self.limit
        share = f", {more / self.limit:.1%}" if self.limit else ""
        name = "saved" if self.key == "saved" else "peak"
        where = "for backward" if self.key == "saved" else f"in {self.phase}"
        return f"{name} {exact(self.used)} > budget {exact(self.limit)} (+{exact(more)}{share}) {where}"


def exact(nbytes: int) -> str:
    """A rounded size, unless rounding would hide a small excess."""
    return format_size(nbytes) if nbytes >= 1 << 20 else f"{nbytes:,} B"


def passed_budgets(use: Use, limits: Mapping[str, int]) -> list[Excess]:
    """The budgets that a recording passed, that of the whole first."""
    highest = max(use.phases, key=lambda phase: use.phases[phase].peak_bytes, default="setup")
    return [
        Excess(key, use.figure(key), limit, key if key in PHASES else highest)
        for key, limit in sorted(limits.items(), key=lambda item: item[0] != "peak")
        if use.figure(key) > limit
    ]


# -- the explanation ---------------------------------------------------------------------------------------------------


def explanation(
    use: Use,
    limits: Mapping[str, int],
    *,
    where: str,
    before: Mapping[str, Any] | None = None,
    file: str | None = None,
) -> str:
    """Why a test passed its budget, as text.

    Args:
        use: what was measured.
        limits: the budgets.
        where: what stated them.
        before: the test's baseline, if it has one.
        file: where the full profile was written, if it was.
    """
    lines = _head(use, limits, where, before)
    lines += ["", *_phases(use, limits), "", *_live(use)]
    if use.report.hints and use.report.peak.device == use.shown_device:
        lines += ["", *(_hint(use, hint) for hint in use.report.hints if hint.code != "all")][: _HINTS + 1]
    changed = _changes(use, before)
    if changed or file:
        lines.append("")
    if changed:
        lines.append(f"what changed since the baseline: {changed}")
    if file:
        lines.append(f"full profile: {file}   (memprof report <file>)")
    return "\n".join(f"  {line}".rstrip() for line in flow(lines, _WIDTH))


def _hint(use: Use, hint: Hint) -> str:
    """A hint with its figures above the start, as all figures of a test are."""
    of_all, above = (
        f"peak {format_size(hint.peak_before_bytes - start)} -> {format_size(hint.peak_after_bytes - start)}"
        for start in (0, min(use.begin_bytes, hint.peak_after_bytes))
    )
    return f"hint: {hint.text.replace(of_all, above)}"


def _head(use: Use, limits: Mapping[str, int], where: str, before: Mapping[str, Any] | None) -> list[str]:
    lines = []
    if "peak" in limits:
        lines.append(f"test budget   {exact(limits['peak'])}   ({where})")
    else:
        lines.append(f"budgets by phase ({where})")
    highest = max(use.phases, key=lambda phase: use.phases[phase].peak_bytes, default=None)
    place = ""
    if highest is not None:
        record = use.phases[highest].record
        at = record.at
        site = "" if at.site is None else str(at.site)
        inside = ", ".join(part for part in (at.module, site) if part)
        place = f"{highest}, step {record.step}, {at.op}".rstrip(", ") + (f" ({inside})" if inside else "")
    lines.append(f"peak          {exact(use.peak_bytes)}   {place}, on {use.shown_device}")
    if use.begin_bytes:
        lines.append(f"not counted   {exact(use.begin_bytes)}   live when the test began")
    if before is not None:
        lines.append(f"baseline      {exact(int(before['peak_bytes']))}   {before.get('date', '')}".rstrip())
    return lines


def _phases(use: Use, limits: Mapping[str, int]) -> list[str]:
    rows = [("phase", "peak", "budget", "")]
    for phase, found in use.phases.items():
        limit = limits.get(phase, limits.get("peak"))
        over = limit is not None and found.peak_bytes > limit
        mark = f"  <-- over by {exact(found.peak_bytes - limit)}" if limit is not None and over else ""
        own = limits.get(phase)
        rows.append((phase, exact(found.peak_bytes), "-" if own is None else exact(own), mark))
    if use.saved.count:
        limit = limits.get("saved")
        over = limit is not None and use.saved.resident_bytes > limit
        mark = f"  <-- over by {exact(use.saved.resident_bytes - limit)}" if limit is not None and over else ""
        rows.append(("saved", exact(use.saved.resident_bytes), "-" if limit is None else exact(limit), mark))
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    return [f"{a.ljust(wide[0])}  {b.rjust(wide[1])}  {c.rjust(wide[2])}{mark}" for a, b, c, mark in rows]


def _live(use: Use) -> list[str]:
    total, blocks = use.peak_bytes, use.blocks()
    if not blocks or not total:
        return ["nothing that this test allocated was live at the peak"]
    rows = [("live at the peak", exact(total), "100.0%", "")]
    for kind, nbytes in use.by_category().items():
        largest = next(block for block in blocks if _kind(block) == kind)
        rows.append((f"  {kind}", exact(nbytes), f"{nbytes / total:.1%}", _named(largest)))
    gone = sum(block.nbytes for block in blocks) - total
    if gone > 0:
        rows.append(("  freed since the start", f"-{exact(gone)}", f"-{gone / total:.1%}", ""))
    wide = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [f"{a.ljust(wide[0])}  {b.rjust(wide[1])}  {c.rjust(wide[2])}   {d}".rstrip() for a, b, c, d in rows]
    lines += ["", "largest blocks, and who holds them"]
    for block in blocks[:_LARGEST]:
        lines.append(f"  {_named(block)}" + ("" if block.site is None else f", allocated at {block.site}"))
        holders = _holders(block)
        lines += [f"      held by {holders}"] if holders else []
    return lines


def _named(block: LiveBlock) -> str:
    """What a block is, and its size."""
    name = block.name or block.op or "block"
    module = f"{block.module}: " if block.module and not name.startswith(block.module) else ""
    return f"{module}{name} {exact(block.nbytes)}"


def _holders(block: LiveBlock) -> str:
    return " and ".join(holder_text(holder.kind, holder.what) for holder in block.held_by if holder.kind != "unknown")


def describe(block: LiveBlock) -> str:
    """What a block is, where it comes from and who holds it, in one line."""
    holders = _holders(block)
    parts = [_named(block)]
    parts += [f"allocated at {block.site}"] if block.site is not None else []
    parts += [f"held by {holders}"] if holders else []
    return ", ".join(parts)


def holder_text(kind: str, what: str) -> str:
    """A holder in words."""
    words = {"saved_tensor": f"{what} (saved for backward)", "engine": f"the engine, {what}"}
    return words.get(kind, what)


def _changes(use: Use, before: Mapping[str, Any] | None) -> str:
    if before is None:
        return ""
    old, new = dict(before.get("by_category", {})), use.by_category()
    changes = {kind: new.get(kind, 0) - old.get(kind, 0) for kind in {**old, **new}}
    grown = sorted(((more, kind) for kind, more in changes.items() if more), key=lambda one: -abs(one[0]))
    return ", ".join(f"{'+' if more > 0 else '-'}{exact(abs(more))} {kind}" for more, kind in grown[:_LARGEST])


def leak_lines(blocks: Iterable[LiveBlock]) -> list[str]:
    """One line for each storage that outlives a test."""
    return [f"  {describe(block)}" for block in blocks]
