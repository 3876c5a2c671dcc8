"""Reports as plain text, for terminals and logs: ASCII only, as wide as asked for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from ..memory import format_size
from .model import DISK, PHASES, Holder, LiveBlock, MemoryReport, PeakAt, PhasePeak, SavedRow, highest
from .tables import aligned, clip, flow, shorten, starred

DEFAULT_WIDTH = 100
NARROW = 98  # below, some columns are left out
_LEAST_WIDTH = 60
_LEAST_WHAT = 12
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
        sections = [flow(_head(report), width), _steps(report, size, width, phase)]
        return _joined(sections, width)
    sections = [
        flow(_head(report), width),
        flow(_peak(report, size), width),
        _phases(report, size, width),
        flow(_boundary(report, size), width),
        _categories(report, size, width),
        blocks,
        flow(_saved_totals(report, size), width) + _saved_rows(report, size, top, width),
        flow(_leaks(report, size), width),
        flow(_hints(report), width),
    ]
    return _joined(sections, width)


def _joined(sections: Iterable[list[str]], width: int) -> str:
    lines = "\n\n".join("\n".join(section) for section in sections if section).splitlines()
    return "\n".join(clip(line.rstrip(), width) for line in lines)


def _bytes(nbytes: int) -> str:
    return f"{nbytes:,}"


def _signed(nbytes: int, size: Size) -> str:
    sign = "+" if nbytes > 0 else "-" if nbytes < 0 else ""
    return sign + size(abs(nbytes))


def signed_size(nbytes: int) -> str:
    """A difference of sizes."""
    return _signed(nbytes, format_size)


def _seconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.2f}"


def _milliseconds(nanoseconds: int) -> str:
    value = nanoseconds / 1e6
    return f"{value:.1f}ms" if 0 < value < 10 else f"{value:.0f}ms"


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
    for device in report.devices:
        if device.id != peak.device:
            lines.append(f"      on {device.id}: {size(device.tracked_peak_bytes)}")
        elif device.id != "cpu" and device.reserved_peak_bytes is not None:
            lines.append(f"      its pool held {size(device.reserved_peak_bytes)} of the device at most")
        if device.budget_bytes is not None:
            lines.append(f"      the limit of {device.id} is {size(device.budget_bytes)}")
    resident = report.resident
    if resident is not None:
        lines.append(
            f"      tracked {size(resident.tracked_bytes)} + pool slack {size(resident.pool_slack_bytes)}"
            f" + untracked {size(resident.untracked_bytes)} = RSS {size(resident.rss_bytes)}"
            f" (peak {size(resident.rss_peak_bytes)})"
        )
    return lines


def _phases(report: MemoryReport, size: Size, width: int) -> list[str]:
    of_steps = f" (worst of {report.steps} steps)" if report.steps > 1 else ""
    rows = [["PHASE", "starts at", "peak", "added", "sec", f"peak in{of_steps}"]]
    devices = [report.peak.device, *(d.id for d in report.devices if d.id not in (report.peak.device, DISK))]
    for device in devices:
        for phase in PHASES:
            worst = highest(p for p in report.phases if p.phase == phase and p.device == device)
            if worst is not None and (worst.peak_bytes or worst.active_ns):
                rows.append(_phase_row(report, worst, size, several=len(devices) > 1))
    if len(rows) == 1:
        return []
    if width < NARROW:
        rows = [[*row[:3], row[5]] for row in rows]
    last = len(rows[0]) - 1
    return aligned(rows, width, right=range(1, last), elastic=[last])


def _phase_row(report: MemoryReport, worst: PhasePeak, size: Size, several: bool) -> list[str]:
    peak = report.peak
    is_peak = (worst.device, worst.step, worst.phase) == (peak.device, peak.step, peak.phase)
    where = _where(worst.at) or str(worst.at.site or "")
    if not where:
        where = "at its start" if worst.peak_bytes == worst.begin_bytes else "where it went on after another phase"
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
    if width < NARROW:
        rows = [[row[0], row[1], row[3]] for row in rows]
    last = len(rows[0]) - 1
    return aligned(rows, width, right=range(1, last), elastic=[last])


def _title(block: LiveBlock) -> str:
    """What a block is, and where: without the module where the name tells it already, nor float32."""
    name = block.name.removesuffix(" float32") if block.name.count(" ") > 1 else block.name
    if name and block.module and not name.startswith(block.module):
        return f"{block.module}: {name}"
    return name or block.module or block.op or f"block {block.id}"


def _blocks(report: MemoryReport, size: Size, top: int, width: int) -> list[str]:
    """The largest blocks, like ones in one row; each for itself if all are shown."""
    live = report.peak.live
    if not live:
        return []
    groups = _alike(live) if top < len(live) else [[block] for block in live]
    shown, rest = groups[:top], groups[top:]
    table = [["  size", "n", "category", "what"]]
    for blocks in shown:
        nbytes = sum(block.nbytes for block in blocks)
        table.append([f"  {size(nbytes)}", str(len(blocks)), blocks[0].category, _group_title(blocks)])
    left_out = {1} if all(len(blocks) == 1 for blocks in shown) else set()
    left_out |= {2} if width < NARROW else set()
    rows = [[cell for number, cell in enumerate(row) if number not in left_out] for row in table]
    rows = _with_holders(rows, shown, width)
    last = len(rows[0]) - 1
    lines = aligned(rows, width, right=(0,) if 1 in left_out else (0, 1), elastic=(last - 1, last))
    if rest:
        left = [block.nbytes for blocks in rest for block in blocks]
        lines.append(f"  {size(sum(left))} in {len(left)} more (memprof report --blocks all)")
    return lines


def _starred(text: str) -> str:
    """A text without the numbers in the paths of modules."""
    return re.sub(r"(?<![^.\s])\d+(?=[.:])|(?<=\.)\d+(?=\s|$)", "*", text)


def _alike(live: Iterable[LiveBlock]) -> list[list[LiveBlock]]:
    """Blocks in groups, the largest sum first: all of a model's or an optimizer's own, and what differs in a number."""
    groups: dict[tuple[str, str, str], list[LiveBlock]] = {}
    for block in live:
        title = "" if block.category in _OWNED else _starred(_title(block))
        groups.setdefault((block.category, title, _starred(_held_texts(block)[0])), []).append(block)
    return sorted(groups.values(), key=lambda blocks: -sum(block.nbytes for block in blocks))


_OWNED = ("parameter", "buffer", "gradient", "optimizer_state")
_KINDS = {"saved_tensor": "saved by", "engine": "engine,"}


def _group_title(blocks: Sequence[LiveBlock]) -> str:
    if len(blocks) == 1:
        return _title(blocks[0])
    titles = {_starred(_title(block)) for block in blocks}
    return _starred(_title(blocks[0])) + (", .." if len(titles) > 1 else "")


def _with_holders(rows: Sequence[Sequence[str]], groups: Sequence[list[LiveBlock]], width: int) -> list[list[str]]:
    """The rows with who holds each group, as fully as there is room for.

    The column before gives way up to a half, and up to two thirds where a variable is to be named with its line.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = width - sum(widths[:-1]) - 2 * len(widths)
    texts = [_held_texts(blocks[0]) for blocks in groups]
    needed = [len(of_block[2]) for of_block in texts]
    by_variables = [size for size, blocks in zip(needed, groups, strict=True) if _is_held_by_variable(blocks[0])]
    own = max(room - widths[-1], min(max(needed), room // 2), min(max(by_variables, default=0), 2 * room // 3), 8)
    held = [next((text for text in of_block if len(text) <= own), shorten(of_block[-1], own)) for of_block in texts]
    left = max(room - max(map(len, held)), _LEAST_WHAT)
    return [[*row[:-1], shorten(row[-1], left), cell] for row, cell in zip(rows, ["who holds it", *held], strict=True)]


def _is_held_by_variable(block: LiveBlock) -> bool:
    return any(holder.kind == "python" for holder in block.held_by[:1])


def _held_texts(block: LiveBlock) -> list[str]:
    """Who holds a block in words: all of it, with the file's name only, without a second holder, and without a line."""
    known = [holder for holder in block.held_by if holder.kind != "unknown"]
    if known:
        first, site = _words(known[0]), known[0].site
        also = "".join(f", {_words(holder)}" for holder in known[1:2])
    else:
        first, site, also = f"since {block.phase}, step {block.step}", block.site, ""
    if site is None:
        return [f"{first}{also}", f"{first}{also}", first, first]
    line = f"{os.path.basename(site.file)}:{site.line}"
    return [f"{first} ({site}){also}", f"{first} ({line}){also}", f"{first} ({line})", first]


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
        f"{saved.count} value{'' if saved.count == 1 else 's'}",
        f"{size(saved.raw_bytes)} -> {size(saved.resident_bytes)}",
        f"offloaded {size(saved.offloaded_bytes)}" if saved.offloaded_bytes else "",
    ]
    if saved.pack_ns or saved.unpack_ns:
        parts += [f"pack {_milliseconds(saved.pack_ns)}", f"unpack {_milliseconds(saved.unpack_ns)}"]
    return ["   ".join(part for part in parts if part)]


def _saved_rows(report: MemoryReport, size: Size, top: int, width: int) -> list[str]:
    rows = grouped(report.saved.rows)
    if not rows:
        return []
    most = max(min(top, len(rows)), 1) + 1
    shown, rest = rows[:most], rows[most:]
    table = [["  module", "op: slot", "n", "raw", "resident", "offloaded", "policy", "pack", "unpack"]]
    table += [_saved_cells(row, size) for row in shown]
    if rest:
        more = f"{len(rest)} more row{'' if len(rest) == 1 else 's'}"
        table.append(_saved_cells(_sum(rest, more, "", "", ""), size))
    left_out = set() if report.saved.offloaded_bytes and width >= NARROW else {5}
    if width < NARROW or not (report.saved.pack_ns or report.saved.unpack_ns):
        left_out |= {7, 8}
    kept = [number for number in range(len(table[0])) if number not in left_out]
    right = [place for place, number in enumerate(kept) if number not in (0, 1, 6)]
    elastic = [place for place, number in enumerate(kept) if number in (0, 1, 6)]
    return aligned([[cells[number] for number in kept] for cells in table], width, right, elastic)


def _saved_cells(row: SavedRow, size: Size) -> list[str]:
    return [
        f"  {row.module}",
        f"{row.op}: {row.slot}" if row.op else "",
        str(row.count),
        size(row.raw_bytes),
        "shared" if row.shared_bytes == row.raw_bytes and not row.resident_bytes else size(row.resident_bytes),
        size(row.offloaded_bytes),
        row.policy,
        _milliseconds(row.pack_ns),
        _milliseconds(row.unpack_ns),
    ]


def grouped(rows: Iterable[SavedRow]) -> list[SavedRow]:
    """Rows of modules that differ only in a number, summed: ``blocks.0.attn`` and ``blocks.1.attn`` are one row."""

    def key(row: SavedRow) -> tuple[str, str, str, str]:
        return starred(row.module), row.op, row.slot, row.policy

    groups = [_sum(list(same), *of) for of, same in groupby(sorted(rows, key=key), key)]
    return sorted(groups, key=lambda row: -row.raw_bytes)


def _sum(rows: list[SavedRow], module: str, op: str, slot: str, policy: str) -> SavedRow:
    total = replace(rows[0], module=module, op=op, slot=slot, policy=policy)
    fields = (
        *("count", "raw_bytes", "resident_bytes", "offloaded_bytes", "shared_bytes"),
        *("pack_ns", "unpack_ns", "unpacks"),
    )
    return replace(total, **{field: sum(getattr(row, field) for row in rows) for field in fields})
