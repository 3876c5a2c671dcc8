"""Reports as plain text, for terminals and logs: ASCII only, as wide as asked for."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from ..memory import format_size
from .model import PHASES, Holder, LiveBlock, MemoryReport, PeakAt, PhasePeak, SavedRow, highest

DEFAULT_WIDTH = 100
_NARROW = 98  # below, some columns are left out
_LEAST_WIDTH = 60
_LEAST_CELL = 8
_TOP = 6

Size = Callable[[int], str]


def render(
    report: MemoryReport,
    *,
    width: int = DEFAULT_WIDTH,
    top: int | None = _TOP,
    exact: bool = False,
    phase: str | None = None,
    group_by: str | None = None,
) -> str:
    """A report as text, without a newline at its end.

    Args:
        report: the report.
        width: the most columns a line may have (at least 60 are used).
        top: how many blocks and rows are listed; None for all.
        exact: bytes instead of rounded units.
        phase: only the records of this phase, one a step.
        group_by: "module", "op" or "line": the blocks at the peak in groups.
    """
    top = sys.maxsize if top is None else top
    width = max(width, _LEAST_WIDTH)
    size: Size = _bytes if exact else format_size
    blocks = _blocks(report, size, top, width)
    if group_by is not None:
        blocks = _groups(report, size, top, width, group_by)
    if phase is not None:
        sections = [_flow(_head(report), width), _steps(report, size, width, phase)]
        return _joined(sections, width)
    sections = [
        _flow(_head(report), width),
        _flow(_peak(report, size), width),
        _phases(report, size, width),
        _flow(_boundary(report, size), width),
        _categories(report, size, width),
        blocks,
        _flow(_saved_totals(report, size), width) + _saved_rows(report, size, top, width),
        _flow(_leaks(report, size), width),
        _flow(_hints(report), width),
    ]
    return _joined(sections, width)


def _joined(sections: Iterable[list[str]], width: int) -> str:
    lines = "\n\n".join("\n".join(section) for section in sections if section).splitlines()
    return "\n".join(_clip(line.rstrip(), width) for line in lines)


def _flow(lines: Iterable[str], width: int) -> list[str]:
    """Lines of words, broken where they are too long."""
    broken: list[str] = []
    for line in lines:
        glued = re.sub(r"(?<=\d) (?=[KMG]?i?B\b)", "\0", line)  # a number stays with its unit
        broken += textwrap.wrap(
            glued, width, subsequent_indent="      ", break_long_words=False, break_on_hyphens=False
        )
    return [line.replace("\0", " ") for line in broken]


def _bytes(nbytes: int) -> str:
    return f"{nbytes:,}"


def _signed(nbytes: int, size: Size) -> str:
    return f"+{size(nbytes)}" if nbytes >= 0 else f"-{size(-nbytes)}"


def signed_size(nbytes: int) -> str:
    """A difference of sizes."""
    return _signed(nbytes, format_size)


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.2f}"


def _milliseconds(nanoseconds: int) -> str:
    value = nanoseconds / 1e6
    return f"{value:.1f}ms" if 0 < value < 10 else f"{value:.0f}ms"


def _clip(line: str, width: int) -> str:
    line = line.encode("ascii", "backslashreplace").decode()
    return line if len(line) <= width else f"{line[: width - 2]}.."


def _shorten(text: str, width: int) -> str:
    """A text without its middle, if it is too long: both ends of an op and its slot or of a path tell something."""
    if len(text) <= width:
        return text
    tail = (width - 2) // 3
    return f"{text[: width - 2 - tail]}..{text[-tail:]}"


def aligned(rows: Sequence[Sequence[str]], width: int, right: Iterable[int], elastic: Sequence[int]) -> list[str]:
    """Rows as lines with aligned columns.

    Args:
        rows: cells; the first row is the header.
        width: the most columns of a line, as far as the elastic columns allow it.
        right: the columns that are aligned to the right.
        elastic: the columns whose text may be cut, the widest first.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    while excess > 0:
        widest = max(elastic, key=lambda number: widths[number])
        if widths[widest] <= _LEAST_CELL:
            break
        widths[widest] -= 1
        excess -= 1
    aligned = set(right)
    return [
        "  ".join(
            cell.rjust(wide) if number in aligned else _shorten(cell, wide).ljust(wide)
            for number, (cell, wide) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


# -- sections ----------------------------------------------------------------------------------------------------------


def _head(report: MemoryReport) -> list[str]:
    overhead, duration = report.overhead, max(report.duration_ns, 1)
    steps = f"{report.steps} step" + ("" if report.steps == 1 else "s")
    ended = "" if report.exit_code in (None, 0) else f"   exit code {report.exit_code}"
    cost = f"{overhead.profiler_ns / 1e6:.1f} ms ({overhead.profiler_ns / duration:.2%} of the run)"
    lines = [
        f"memprof {report.version}   {' '.join(report.command)}   {steps}, {report.duration_ns / 1e9:.1f} s{ended}",
        f"overhead: {overhead.events:,} events, {cost}, {format_size(overhead.profiler_bytes)}",
    ]
    if overhead.dropped_phases:
        lines.append(f"{overhead.dropped_phases:,} phases of early steps are left out; the highest are kept")
    return lines


def _where(at: PeakAt) -> str:
    """ "module: op", as far as both are known."""
    return ": ".join(part for part in (at.module, at.op) if part)


def _peak(report: MemoryReport, size: Size) -> list[str]:
    peak = report.peak
    if not peak.nbytes:
        return ["PEAK  nothing was tracked: no tensors were alive while this was recorded"]
    where = _where(peak.at)
    lines = [
        f"PEAK  {size(peak.nbytes)}  on {peak.device}, step {peak.step}, {peak.phase.upper()}"
        + (f", in {where}" if where else "")
    ]
    if peak.at.site is not None:
        lines.append(f"      {peak.at.site}")
    others = (device for device in report.devices if device.id != peak.device)
    lines.extend(f"      on {device.id}: {size(device.tracked_peak_bytes)}" for device in others)
    resident = report.resident
    if resident is not None:
        lines.append(
            f"      tracked {size(resident.tracked_bytes)} + pool slack {size(resident.pool_slack_bytes)}"
            f" + untracked {size(resident.untracked_bytes)} = RSS {size(resident.rss_bytes)}"
            f"   (RSS peak {size(resident.rss_peak_bytes)})"
        )
    return lines


def _phases(report: MemoryReport, size: Size, width: int) -> list[str]:
    header = ["PHASE", "starts at", "peak", "added", "sec", f"peak in (worst of {max(report.steps, 1)} steps)"]
    rows = [header]
    devices = [report.peak.device, *(d.id for d in report.devices if d.id not in (report.peak.device, "disk"))]
    for device in devices:
        for phase in PHASES:
            worst = highest(p for p in report.phases if p.phase == phase and p.device == device)
            if worst is not None and (worst.peak_bytes or worst.active_ns):
                rows.append(_phase_row(report, worst, size, several=len(devices) > 1))
    if len(rows) == 1:
        return []
    if width < _NARROW:
        rows = [[*row[:3], row[5]] for row in rows]
    last = len(rows[0]) - 1
    return aligned(rows, width, right=range(1, last), elastic=[last])


def _phase_row(report: MemoryReport, worst: PhasePeak, size: Size, several: bool) -> list[str]:
    peak = report.peak
    is_peak = (worst.device, worst.step, worst.phase) == (peak.device, peak.step, peak.phase)
    where = _where(worst.at) or ("at its start" if worst.peak_bytes == worst.begin_bytes else "")
    if not where and worst.at.site is not None:
        where = str(worst.at.site)
    name = f"{worst.phase} ({worst.device})" if several else worst.phase
    return [
        f"  {name}",
        size(worst.begin_bytes),
        size(worst.peak_bytes),
        _signed(worst.peak_bytes - worst.begin_bytes, size),
        _seconds(worst.active_ns),
        where + (" <- PEAK" if is_peak else ""),
    ]


def _steps(report: MemoryReport, size: Size, width: int, phase: str) -> list[str]:
    """Every record of one phase."""
    records = [record for record in report.phases if record.phase == phase]
    if not records:
        return [f"no {phase} was recorded"]
    rows = [[f"{phase.upper()} OF STEP", "device", "starts at", "peak", "added", "sec", "peak in"]]
    for record in records:
        cells = _phase_row(report, record, size, several=False)
        rows.append([f"  {record.step}", record.device, *cells[1:]])
    return aligned(rows, width, right=(0, 2, 3, 4, 5), elastic=[6])


def _groups(report: MemoryReport, size: Size, top: int, width: int, group_by: str) -> list[str]:
    """The blocks at the peak, by module, op or line."""
    totals: dict[str, list[int]] = {}
    for block in report.peak.live:
        key = str(block.site or "") if group_by == "line" else getattr(block, group_by)
        totals.setdefault(key or f"(no {group_by})", []).append(block.nbytes)
    ordered = sorted(totals.items(), key=lambda item: (-sum(item[1]), item[0]))
    rows = [["  size", "blocks", f"live at the peak, by {group_by}"]]
    rows += [[f"  {size(sum(sizes))}", str(len(sizes)), key] for key, sizes in ordered[:top]]
    lines = aligned(rows, width, right=(1,), elastic=[2])
    rest = ordered[top:]
    if rest:
        lines.append(f"  {size(sum(sum(sizes) for _, sizes in rest))} in {len(rest)} more")
    return lines


def _boundary(report: MemoryReport, size: Size) -> list[str]:
    boundary = report.boundary
    if boundary is None:
        return []
    rise = boundary.backward_peak_bytes - boundary.forward_end_bytes
    parts = (
        f"FORWARD ENDS (step {boundary.step})",
        f"live {size(boundary.forward_end_bytes)}",
        f"saved {size(boundary.saved_raw_bytes)} -> {size(boundary.saved_resident_bytes)}",
        f"backward {_signed(rise, size)}",
    )
    return ["   ".join(parts)]


def _categories(report: MemoryReport, size: Size, width: int) -> list[str]:
    peak = report.peak
    if not peak.nbytes:
        return []
    rows = [["LIVE AT THE PEAK", "bytes", "share", "largest"]]
    for category, nbytes in sorted(peak.by_category.items(), key=lambda item: -item[1]):
        largest = next((block for block in peak.live if block.category == category), None)
        what = "" if largest is None else f"{_title(largest)} {size(largest.nbytes)}"
        rows.append([f"  {category}", size(nbytes), f"{nbytes / peak.nbytes:.1%}", what])
    if width < _NARROW:
        rows = [[row[0], row[1], row[3]] for row in rows]
    last = len(rows[0]) - 1
    return aligned(rows, width, right=range(1, last), elastic=[last])


def _title(block: LiveBlock) -> str:
    """What a block is, and where: the module is left out where the name tells it already."""
    if block.name and block.module and not block.name.startswith(block.module):
        return f"{block.module}: {block.name}"
    return block.name or block.module or block.op or f"block {block.id}"


def _blocks(report: MemoryReport, size: Size, top: int, width: int) -> list[str]:
    live = report.peak.live
    if not live:
        return []
    shown = live[:top]
    rows = [["  size", "category", "what", "who holds it"]]
    rows += [[f"  {size(block.nbytes)}", block.category, _title(block), _held(block)] for block in shown]
    if width < _NARROW:
        rows = [[row[0], *row[2:]] for row in rows]
    last = len(rows[0]) - 1
    lines = aligned(rows, width, right=(), elastic=(last - 1, last))
    rest = live[len(shown) :]
    if rest:
        lines.append(f"  {size(sum(block.nbytes for block in rest))} in {len(rest)} more (memprof report --blocks all)")
    return lines


_KINDS = {"saved_tensor": "saved by", "engine": "engine,", "optimizer": "optimizer,"}


def _held(block: LiveBlock) -> str:
    known = [holder for holder in block.held_by if holder.kind != "unknown"]
    if not known:
        born = f"since {block.phase}, step {block.step}"
        return born if block.site is None else f"{born}, {block.site}"
    first, *others = known
    line = "" if first.site is None else f" ({first.site})"
    also = "".join(f", {_words(holder)}" for holder in others[:1])
    return f"{_words(first)}{line}{also}"


def _words(holder: Holder) -> str:
    return f"{_KINDS.get(holder.kind, '')} {holder.what}".strip()


def _leaks(report: MemoryReport, size: Size) -> list[str]:
    """What more there is of with every step."""
    if not report.leaks:
        return []
    lines = ["LEAKS   allocated in several steps, and none of it gone when later steps ended"]
    for leak in report.leaks:
        module = f"{leak.module}: " if leak.module else ""
        where = "" if leak.site is None else f" ({leak.site})"
        held = "".join(f", held by {_words(holder)}" for holder in leak.held_by[:1] if holder.kind != "unknown")
        lines.append(
            f"  {size(leak.nbytes)} in {leak.count} of {module}{leak.name}{where},"
            f" from {len(leak.steps)} steps ({leak.steps[0]} to {leak.steps[-1]}){held}"
        )
    return lines


def _hints(report: MemoryReport) -> list[str]:
    """What would lower the peak."""
    if not report.hints:
        return []
    lines = ["HINTS (each replayed with the recorded events)"]
    number = 0
    for hint in report.hints:
        if hint.code == "all":
            lines.append(f"  {hint.text}")
        else:
            number += 1
            lines.append(f"  {number}  {hint.text}")
    return lines


# -- saved for backward ------------------------------------------------------------------------------------------------


def _saved_totals(report: MemoryReport, size: Size) -> list[str]:
    saved = report.saved
    if not saved.count:
        return []
    parts = [
        f"SAVED FOR BACKWARD (step {saved.step})",
        f"{saved.count} values",
        f"{size(saved.raw_bytes)} -> {size(saved.resident_bytes)} resident",
        f"offloaded {size(saved.offloaded_bytes)}" if saved.offloaded_bytes else "",
        f"pack {_milliseconds(saved.pack_ns)}",
        f"unpack {_milliseconds(saved.unpack_ns)}",
    ]
    return ["   ".join(part for part in parts if part)]


def _saved_rows(report: MemoryReport, size: Size, top: int, width: int) -> list[str]:
    rows = grouped(report.saved.rows)
    if not rows:
        return []
    most = max(min(top, len(rows)), 1) + 1
    shown, rest = rows[:most], rows[most:]
    table = [["  module", "op: slot", "n", "raw", "resident", "policy", "pack", "unpack"]]
    table += [_saved_cells(row, size) for row in shown]
    if rest:
        table.append(_saved_cells(_sum(rest, f"{len(rest)} more rows", "", "", ""), size))
    if width < _NARROW:
        table = [cells[:6] for cells in table]
    return aligned(table, width, right=(2, 3, 4, 6, 7), elastic=(0, 1, 5))


def _saved_cells(row: SavedRow, size: Size) -> list[str]:
    cells = [f"  {row.module}", f"{row.op}: {row.slot}" if row.op else "", str(row.count), size(row.raw_bytes)]
    return [*cells, size(row.resident_bytes), row.policy, _milliseconds(row.pack_ns), _milliseconds(row.unpack_ns)]


def grouped(rows: Iterable[SavedRow]) -> list[SavedRow]:
    """Rows of modules that differ only in a number, summed: ``blocks.0.attn`` and ``blocks.1.attn`` are one row."""

    def key(row: SavedRow) -> tuple[str, str, str, str]:
        return re.sub(r"(?<![^.])\d+(?![^.])", "*", row.module), row.op, row.slot, row.policy

    groups = [_sum(list(same), *of) for of, same in groupby(sorted(rows, key=key), key)]
    return sorted(groups, key=lambda row: -row.raw_bytes)


def _sum(rows: list[SavedRow], module: str, op: str, slot: str, policy: str) -> SavedRow:
    total = replace(rows[0], module=module, op=op, slot=slot, policy=policy)
    fields = ("count", "raw_bytes", "resident_bytes", "offloaded_bytes", "pack_ns", "unpack_ns", "unpacks")
    return replace(total, **{field: sum(getattr(row, field) for row in rows) for field in fields})
