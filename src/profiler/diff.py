"""Two profiles side by side: what grew, what shrank, and whether anything grew too much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..memory import format_size, parse_size
from .model import DISK, PHASES, MemoryReport
from .tables import aligned, clip, flow, shorten, starred
from .text import DEFAULT_WIDTH, NARROW, grouped, signed_size

PARTS = ("phase", "category", "module", "saved")
SCHEMA = "stowgrad.memprof-diff/1"
_TITLES = {
    "phase": "PHASE",
    "category": "CATEGORY AT THE PEAK",
    "module": "MODULE AT THE PEAK",
    "saved": "SAVED FOR BACKWARD",
}
_TOP = 12


@dataclass(frozen=True)
class Change:
    """One figure in two profiles.

    Attributes:
        by: "peak", or the part that it belongs to: "phase", "category", "module" or "saved".
        name: what it is the figure of.
        before, after: bytes; 0 where there is none.
        before_ns, after_ns: the time of phases, and that of packing and unpacking of saved values.
        places: where the peak was before and is now, for phases in which it has moved.
        note: what else changed.
    """

    by: str
    name: str
    before: int
    after: int
    before_ns: int = 0
    after_ns: int = 0
    places: tuple[str, str] | None = None
    note: str = ""


@dataclass(frozen=True)
class Growth:
    """How much more is too much: a share of what was before, or bytes."""

    share: float | None = None
    nbytes: int | None = None

    def is_passed(self, before: int, after: int) -> bool:
        """Whether the growth from one figure to another is larger."""
        if self.nbytes is not None:
            return after - before > self.nbytes
        return after > before + (self.share or 0) * before

    def __str__(self) -> str:
        return format_size(self.nbytes) if self.nbytes is not None else f"{100 * (self.share or 0):g}%"


def parse_growth(text: str) -> Growth:
    """A limit for growth from its text: ``2%`` or ``16MiB``.

    Raises:
        ValueError: if it is neither.

    >>> parse_growth("2%")
    Growth(share=0.02, nbytes=None)
    """
    if not text.endswith("%"):
        return Growth(nbytes=parse_size(text))
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < float("inf"):
        raise ValueError(f"expected a share such as 2% or a size such as 16MiB, got {text!r}")
    return Growth(share=share)


def compare(old: MemoryReport, new: MemoryReport, parts: Iterable[str] = PARTS) -> list[Change]:
    """The figures of two profiles side by side: the peak first, then the parts, the largest changes first."""
    changes = [Change("peak", new.peak.device, old.peak.nbytes, new.peak.nbytes)]
    for part in parts:
        found = list(_FINDERS[part](old, new))
        if part != "phase":
            found.sort(key=lambda change: (-abs(change.after - change.before), change.name))
        changes += found
    return changes


def failures(changes: Iterable[Change], limit: Growth) -> list[str]:
    """One line for the peak and each phase that grew by more than the limit."""
    return [
        f"{change.name if change.by == 'phase' else 'peak'} grew by more than {limit}:"
        f" {_exact(change.before)} -> {_exact(change.after)} (+{_exact(change.after - change.before)})"
        for change in changes
        if change.by in ("peak", "phase") and limit.is_passed(change.before, change.after)
    ]


def _exact(nbytes: int) -> str:
    return format_size(nbytes) if nbytes >= 1 << 20 else f"{nbytes:,} B"


# -- what is compared --------------------------------------------------------------------------------------------------


def _phases(old: MemoryReport, new: MemoryReport) -> Iterator[Change]:
    devices = dict.fromkeys([new.peak.device, *(phase.device for phase in (*new.phases, *old.phases))])
    for device in devices:
        for phase in PHASES:
            before, after = old.worst(phase, device), new.worst(phase, device)
            known = [one for one in (before, after) if one is not None]
            if not any(one.peak_bytes for one in known):
                continue
            places = [": ".join(part for part in (one.at.module, one.at.op) if part) for one in known]
            moved = len(places) == 2 and places[0] != places[1]
            yield Change(
                by="phase",
                name=phase if len(devices) == 1 else f"{phase} ({device})",
                before=0 if before is None else before.peak_bytes,
                after=0 if after is None else after.peak_bytes,
                before_ns=0 if before is None else before.active_ns,
                after_ns=0 if after is None else after.active_ns,
                places=(places[0] or "its start", places[1] or "its start") if moved else None,
            )


def _pairs(by: str, old: dict[str, int], new: dict[str, int]) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        yield Change(by, name, old.get(name, 0), new.get(name, 0), note=_presence(name in old, name in new))


def _presence(before: bool, after: bool) -> str:
    return "" if before and after else "gone" if before else "new"


def _categories(old: MemoryReport, new: MemoryReport) -> Iterator[Change]:
    return _pairs("category", dict(old.peak.by_category), dict(new.peak.by_category))


def _modules(old: MemoryReport, new: MemoryReport) -> Iterator[Change]:
    return _pairs("module", _by_module(old), _by_module(new))


def _by_module(report: MemoryReport) -> dict[str, int]:
    found: dict[str, int] = {}
    for block in report.peak.live:
        name = starred(block.module) or "(no module)"
        found[name] = found.get(name, 0) + block.nbytes
    return found


@dataclass
class _Slot:
    """What one op in modules of one kind keeps under one slot, by whatever policies."""

    nbytes: int = 0
    spent_ns: int = 0
    policies: tuple[str, ...] = ()


def _saved(old: MemoryReport, new: MemoryReport) -> Iterator[Change]:
    before, after = _by_slot(old), _by_slot(new)
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, _Slot()), after.get(name, _Slot())
        note = _presence(name in before, name in after)
        if not note and one.policies != other.policies:
            note = f"{', '.join(one.policies)} -> {', '.join(other.policies)}"
        yield Change("saved", name, one.nbytes, other.nbytes, one.spent_ns, other.spent_ns, note=note)


def _by_slot(report: MemoryReport) -> dict[str, _Slot]:
    found: dict[str, _Slot] = {}
    for row in grouped(report.saved.rows):
        slot = found.setdefault(" ".join(part for part in (row.module, f"{row.op}: {row.slot}") if part), _Slot())
        slot.nbytes += row.resident_bytes
        slot.spent_ns += row.pack_ns + row.unpack_ns
        slot.policies = tuple(sorted({*slot.policies, row.policy}))
    return found


_FINDERS = {"phase": _phases, "category": _categories, "module": _modules, "saved": _saved}


# -- output ------------------------------------------------------------------------------------------------------------


def render_diff(
    old: MemoryReport, new: MemoryReport, changes: Iterable[Change], names: tuple[str, str], width: int = DEFAULT_WIDTH
) -> str:
    """The figures as text.

    Args:
        old, new: the profiles.
        changes: their figures side by side.
        names: what to call the profiles.
        width: the most columns of a line.
    """
    changes = list(changes)
    lines = flow(_head(old, new, names, width), width)
    for change in (one for one in changes if one.by == "peak"):
        more = change.after - change.before
        share = f"  {more / change.before:+.1%}" if change.before and more else ""
        phases = f"in {old.peak.phase}" + ("" if old.peak.phase == new.peak.phase else f", now in {new.peak.phase}")
        lines.append(f"PEAK   {_arrow(change.before, change.after)}   {signed_size(more)}{share}   {phases}")
    disk = [report.peak_bytes(device=DISK) for report in (old, new)]
    if any(disk):
        lines.append(f"DISK   {_arrow(*disk)}")
    for part in PARTS:
        rows = [change for change in changes if change.by == part]
        if part != "phase":
            rows = [change for change in rows if change.before != change.after]
        if rows:
            lines += ["", *_part(part, rows, width)]
            lines += flow([_saved_totals(old, new)], width) if part == "saved" else []
    return "\n".join(clip(line.rstrip(), width) for line in lines)


def _head(old: MemoryReport, new: MemoryReport, names: tuple[str, str], width: int) -> list[str]:
    """What is compared, and what else differs: a peak that another number of threads made is no regression."""
    first, second = (
        f"{name} ({report.started[:16].replace('T', ' ')})" for name, report in zip(names, (old, new), strict=True)
    )
    steps = f"{old.steps} and {new.steps} steps"
    if old.steps == new.steps:
        steps = f"{old.steps} step{'' if old.steps == 1 else 's'} each"
    lines = [f"memprof diff   {first} -> {second}   same command, {steps}"]
    if old.command != new.command or len(lines[0]) > width:
        lines = [f"memprof diff   {steps}"]
        lines += [f"  old  {first}   {' '.join(old.command)}", f"  new  {second}   {' '.join(new.command)}"]
    for key in ("threads", "numpy"):
        before, after = (report.platform.get(key) for report in (old, new))
        if before != after and None not in (before, after):
            lines.append(f"  {key} {before} -> {after}")
    return lines


def _arrow(before: int, after: int) -> str:
    return f"{format_size(before)} -> {format_size(after)}"


def _saved_totals(old: MemoryReport, new: MemoryReport) -> str:
    one, other = old.saved, new.saved
    parts = [f"  in all {_arrow(one.resident_bytes, other.resident_bytes)}"]
    if one.offloaded_bytes or other.offloaded_bytes:
        parts.append(f"offloaded {_arrow(one.offloaded_bytes, other.offloaded_bytes)}")
    for name, before, after in (("pack", one.pack_ns, other.pack_ns), ("unpack", one.unpack_ns, other.unpack_ns)):
        if before or after:
            parts.append(f"{name} {(after - before) / 1e6:+.1f} ms")
    return "   ".join(parts)


def _part(part: str, rows: list[Change], width: int) -> list[str]:
    timed = any(row.before_ns or row.after_ns for row in rows) and (part == "phase" or width >= NARROW)
    shown = rows[:_TOP]
    table = [[_TITLES[part], "before", "after", "change", "sec" if timed else "", ""]]
    for row in shown:
        seconds = f"{row.before_ns / 1e9:.2f} -> {row.after_ns / 1e9:.2f}" if timed else ""
        cells = [f"  {row.name}", format_size(row.before), format_size(row.after), signed_size(row.after - row.before)]
        table.append([*cells, seconds, row.note])
    table = table if timed else [[*cells[:4], cells[5]] for cells in table]
    head, *lines = aligned(table, width, right=(1, 2, 3), elastic=(0, len(table[0]) - 1))
    found = [head]
    for row, line in zip(shown, lines, strict=True):
        found.append(line)
        if row.places is not None:
            half = (width - len("    peak moved:  -> ")) // 2
            found.append(f"    peak moved: {shorten(row.places[0], half)} -> {shorten(row.places[1], half)}")
    return found + ([f"  {len(rows) - _TOP} more"] if len(rows) > _TOP else [])


def diff_to_dict(changes: Iterable[Change], failed: list[str]) -> dict[str, Any]:
    """The figures as plain dictionaries, for JSON."""
    rows = [
        {
            "by": change.by,
            "name": change.name,
            "before_bytes": change.before,
            "after_bytes": change.after,
            "before_ns": change.before_ns,
            "after_ns": change.after_ns,
            "note": change.note,
        }
        for change in changes
    ]
    return {"schema": SCHEMA, "rows": rows, "failures": failed}
