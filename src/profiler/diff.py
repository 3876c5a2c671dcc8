"""Two profiles side by side: what grew, what shrank, and whether anything grew too much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..memory import format_size, parse_size
from .model import PHASES, MemoryReport
from .text import DEFAULT_WIDTH, aligned, grouped, signed_size

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
        note: where the peak was before and is now, for phases.
    """

    by: str
    name: str
    before: int
    after: int
    before_ns: int = 0
    after_ns: int = 0
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
                note=f"peak moved: {places[0] or 'its start'} -> {places[1] or 'its start'}" if moved else "",
            )


def _pairs(by: str, old: dict[str, int], new: dict[str, int]) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        yield Change(by, name, old.get(name, 0), new.get(name, 0))


def _categories(old: MemoryReport, new: MemoryReport) -> Iterator[Change]:
    return _pairs("category", dict(old.peak.by_category), dict(new.peak.by_category))


def _modules(old: MemoryReport, new: MemoryReport) -> Iterator[Change]:
    return _pairs("module", _by_module(old), _by_module(new))


def _by_module(report: MemoryReport) -> dict[str, int]:
    found: dict[str, int] = {}
    for block in report.peak.live:
        found[block.module or "(no module)"] = found.get(block.module or "(no module)", 0) + block.nbytes
    return found


def _saved(old: MemoryReport, new: MemoryReport) -> Iterator[Change]:
    before, after = _by_row(old), _by_row(new)
    for name in dict.fromkeys([*before, *after]):
        one, other = before.get(name, (0, 0)), after.get(name, (0, 0))
        yield Change("saved", name, one[0], other[0], one[1], other[1])


def _by_row(report: MemoryReport) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for row in grouped(report.saved.rows):
        name = " ".join(part for part in (row.module, f"{row.op}: {row.slot}") if part)
        nbytes, spent = found.get(name, (0, 0))
        found[name] = nbytes + row.resident_bytes, spent + row.pack_ns + row.unpack_ns
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
    dates = [report.started[:16].replace("T", " ") for report in (old, new)]
    same = "same command" if old.command == new.command else "other commands"
    head = (
        f"memprof diff   {names[0]} ({dates[0]}) -> {names[1]} ({dates[1]})   {same}, {old.steps} and {new.steps} steps"
    )
    lines = [head if len(head) <= width else f"{head[: width - 2]}.."]
    for change in (one for one in changes if one.by == "peak"):
        more = change.after - change.before
        share = f"  {more / change.before:+.1%}" if change.before else ""
        lines.append(
            f"PEAK   {format_size(change.before)} -> {format_size(change.after)}   {signed_size(more)}{share}"
            f"   in {old.peak.phase}" + ("" if old.peak.phase == new.peak.phase else f", now in {new.peak.phase}")
        )
    for part in PARTS:
        rows = [change for change in changes if change.by == part]
        if part != "phase":
            rows = [change for change in rows if change.before != change.after]
        if rows:
            lines += ["", *_part(part, rows, width)]
    return "\n".join(line.rstrip() for line in lines)


def _part(part: str, rows: list[Change], width: int) -> list[str]:
    timed = part in ("phase", "saved")
    table = [[_TITLES[part], "before", "after", "change", "sec" if timed else "", ""]]
    for row in rows[:_TOP]:
        seconds = f"{row.before_ns / 1e9:.2f} -> {row.after_ns / 1e9:.2f}" if timed else ""
        note = row.note or ("new" if not row.before else "gone" if not row.after else "")
        cells = [f"  {row.name}", format_size(row.before), format_size(row.after), signed_size(row.after - row.before)]
        table.append([*cells, seconds, note])
    lines = aligned(table, width, right=(1, 2, 3), elastic=(0, 5))
    return lines + ([f"  {len(rows) - _TOP} more"] if len(rows) > _TOP else [])


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
        }
        for change in changes
    ]
    return {"schema": SCHEMA, "rows": rows, "failures": failed}
