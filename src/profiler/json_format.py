"""Reports as JSON: the format ``stowgrad.memprof/1``, whose schema is ``memprof-1.schema.json`` beside this file.

Readers ignore keys that they don't know, so fields may be added under the same number; writers add some that the
schema does not ask for (``n``, ``active_ns``, ``by_category`` of phases, ``resident``).
"""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterable, Mapping
from typing import Any

from .model import (
    Boundary,
    DeviceUse,
    Hint,
    Holder,
    Leak,
    LiveBlock,
    MemoryReport,
    Overhead,
    Peak,
    PeakAt,
    PhasePeak,
    Resident,
    Saved,
    SavedRow,
    Site,
    Timeline,
)

SCHEMA = "stowgrad.memprof/1"
_SCHEMA_FILE = "memprof-1.schema.json"
# Field of `SavedRow` -> its key.
_ROW_KEYS = {
    "module": "module",
    "op": "op",
    "slot": "slot",
    "policy": "policy",
    "count": "n",
    "raw_bytes": "raw_bytes",
    "resident_bytes": "resident_bytes",
    "offloaded_bytes": "offloaded_bytes",
    "pack_ns": "pack_ns",
    "unpack_ns": "unpack_ns",
    "unpacks": "unpacks",
    "shared_bytes": "shared_bytes",
}
_HINT_KEYS = {
    "code": "code",
    "text": "text",
    "peak_before_bytes": "peak_before_bytes",
    "peak_after_bytes": "peak_after_bytes",
    "phase": "phase",
    "is_exact": "exact",
}
_TOTAL_KEYS = {
    "step": "step",
    "count": "n",
    "raw_bytes": "raw_bytes",
    "resident_bytes": "resident_bytes",
    "offloaded_bytes": "offloaded_bytes",
    "pack_ns": "pack_ns",
    "unpack_ns": "unpack_ns",
}


class ProfileFormatError(ValueError):
    """A file is no memory profile, or not one that this version can read."""


def schema_text() -> str:
    """The JSON schema, as shipped."""
    return importlib.resources.files(__package__).joinpath(_SCHEMA_FILE).read_text(encoding="utf-8")


# -- writing -----------------------------------------------------------------------------------------------------------


class _Frames:
    """The table of source lines, to which everything refers by number."""

    def __init__(self) -> None:
        self.table: dict[Site, int] = {}

    def number(self, site: Site) -> int:
        return self.table.setdefault(site, len(self.table))

    def key(self, site: Site | None) -> dict[str, int]:
        """``{"frame": n}``, or nothing where the line is not known."""
        return {} if site is None else {"frame": self.number(site)}


def dump(report: MemoryReport) -> str:
    """A report as JSON text, ending with a newline."""
    return json.dumps(to_dict(report), indent=1) + "\n"


def to_dict(report: MemoryReport) -> dict[str, Any]:
    """A report as plain dictionaries, lists, strings and integers."""
    frames = _Frames()
    overhead, boundary, saved = report.overhead, report.boundary, report.saved
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "tool": {"name": "memprof", "version": report.version},
        "command": list(report.command),
        "started": report.started,
        "duration_ns": report.duration_ns,
        "exit_code": report.exit_code,
        "platform": dict(report.platform),
        "options": {**report.options, "record": report.record},
        "steps": report.steps,
        "overhead": {
            "events": overhead.events,
            "dropped_events": overhead.dropped_events,
            "dropped_phases": overhead.dropped_phases,
            "profiler_ns": overhead.profiler_ns,
            "profiler_bytes": overhead.profiler_bytes,
        },
        "devices": [_device(device, report.resident) for device in report.devices],
        "phases": [_phase(phase, frames) for phase in report.phases],
        "peak": _peak(report.peak, frames),
        "saved": {
            "totals": {key: getattr(saved, field) for field, key in _TOTAL_KEYS.items()},
            "rows": [_saved(row, frames) for row in saved.rows],
        },
        "timeline": _timeline(report),
        "leaks": [_leak(leak, frames) for leak in report.leaks],
        "hints": [_hint(hint) for hint in report.hints],
    }
    if boundary is not None:
        found["boundary"] = {key: getattr(boundary, key) for key in Boundary.__dataclass_fields__}
    if report.resident is not None:
        found["resident"] = {key: getattr(report.resident, key) for key in Resident.__dataclass_fields__}
    found["frames"] = [{"file": site.file, "line": site.line, "name": site.name} for site in frames.table]
    return found


def _device(device: DeviceUse, resident: Resident | None) -> dict[str, Any]:
    on_host = resident if device.id == "cpu" else None
    return {
        "id": device.id,
        "total_bytes": device.total_bytes,
        "budget_bytes": device.budget_bytes,
        "tracked_peak_bytes": device.tracked_peak_bytes,
        "begin_bytes": device.begin_bytes,
        "reserved_peak_bytes": device.reserved_peak_bytes,
        "untracked_peak_bytes": None if on_host is None else max(on_host.untracked_bytes, 0),
        "rss_peak_bytes": None if on_host is None else on_host.rss_peak_bytes,
    }


def _at(at: PeakAt, frames: _Frames) -> dict[str, Any]:
    return {"t_ns": at.t_ns, "op": at.op, "module": at.module, **frames.key(at.site)}


def _phase(phase: PhasePeak, frames: _Frames) -> dict[str, Any]:
    return {
        "device": phase.device,
        "step": phase.step,
        "phase": phase.phase,
        "begin_ns": phase.begin_ns,
        "end_ns": phase.end_ns,
        "active_ns": phase.active_ns,
        "begin_bytes": phase.begin_bytes,
        "peak_bytes": phase.peak_bytes,
        "by_category": dict(phase.by_category),
        "peak_at": _at(phase.at, frames),
    }


def _peak(peak: Peak, frames: _Frames) -> dict[str, Any]:
    return {
        "device": peak.device,
        "step": peak.step,
        "phase": peak.phase,
        "bytes": peak.nbytes,
        **_at(peak.at, frames),
        "by_category": dict(peak.by_category),
        "live": [_live(block, frames) for block in peak.live],
    }


def _saved(row: SavedRow, frames: _Frames) -> dict[str, Any]:
    kind = {"shape": None if row.shape is None else list(row.shape), "dtype": row.dtype, "shared_with": row.shared_with}
    return {**{key: getattr(row, field) for field, key in _ROW_KEYS.items()}, **kind, **frames.key(row.site)}


def _hint(hint: Hint) -> dict[str, Any]:
    return {key: getattr(hint, field) for field, key in _HINT_KEYS.items()}


def _leak(leak: Leak, frames: _Frames) -> dict[str, Any]:
    return {
        "bytes": leak.nbytes,
        "n": leak.count,
        "steps": list(leak.steps),
        "category": leak.category,
        "name": leak.name,
        "module": leak.module,
        "op": leak.op,
        **frames.key(leak.site),
        "held_by": _holders(leak.held_by, frames),
    }


def _holders(holders: Iterable[Holder], frames: _Frames) -> list[dict[str, Any]]:
    return [{"kind": one.kind, "what": one.what, **frames.key(one.site)} for one in holders]


def _live(block: LiveBlock, frames: _Frames) -> dict[str, Any]:
    return {
        "id": block.id,
        "bytes": block.nbytes,
        "category": block.category,
        "name": block.name,
        "module": block.module,
        "op": block.op,
        "stack": [frames.number(site) for site in _stack(block)],
        "born": {"step": block.step, "phase": block.phase},
        "held_by": _holders(block.held_by, frames),
        "is_older": block.is_older,
    }


def _stack(block: LiveBlock) -> tuple[Site, ...]:
    """The user's frames of a block; its own line alone, where no more were recorded."""
    return block.stack or (() if block.site is None else (block.site,))


def _timeline(report: MemoryReport) -> dict[str, Any]:
    """What was recorded; without it the peak of every phase, in order: thinned, and no maximum lost."""
    if report.timeline is not None:
        by_category = {name: list(points) for name, points in report.timeline.by_category.items()}
        return {
            "device": report.timeline.device,
            "t_ns": list(report.timeline.t_ns),
            "by_category": by_category,
            "is_recorded": True,
        }
    device = report.peak.device
    points = sorted((p for p in report.phases if p.device == device), key=lambda phase: phase.at.t_ns)
    names = sorted({name for point in points for name in point.by_category})
    return {
        "device": device,
        "t_ns": [point.at.t_ns for point in points],
        "by_category": {name: [point.by_category.get(name, 0) for point in points] for name in names},
    }


# -- reading -----------------------------------------------------------------------------------------------------------


def load(text: str | bytes) -> MemoryReport:
    """The report that a JSON text holds.

    Raises:
        ProfileFormatError: if it is no JSON, no memory profile, one of another version, or lacks something.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileFormatError(f"this is no JSON ({error})") from None
    return from_dict(data)


def from_dict(data: Any) -> MemoryReport:
    """The report that parsed JSON holds.

    Raises:
        ProfileFormatError: as `load`.
    """
    found = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(found, str) or not found.startswith("stowgrad.memprof/"):
        raise ProfileFormatError(f'this is no memory profile: its "schema" is {found!r}, expected {SCHEMA!r}')
    if found != SCHEMA:
        raise ProfileFormatError(
            f"this profile has format {found!r}, this version reads {SCHEMA!r}; use a newer memprof"
        )
    try:
        return _report(data)
    except KeyError as error:
        raise ProfileFormatError(f"this profile is damaged: key {error} is missing") from None
    except (TypeError, AttributeError, ValueError, IndexError) as error:
        raise ProfileFormatError(f"this profile is damaged: {error}") from None


def _report(data: dict[str, Any]) -> MemoryReport:
    frames = [Site(str(one["file"]), _count(one["line"]), str(one["name"])) for one in data["frames"]]
    overhead = data["overhead"]
    totals = data["saved"]["totals"]
    rows = tuple(_saved_row(row, frames) for row in data["saved"]["rows"])
    boundary, resident = data.get("boundary"), data.get("resident")
    return MemoryReport(
        version=str(data["tool"]["version"]),
        command=tuple(str(part) for part in data["command"]),
        started=str(data["started"]),
        duration_ns=_count(data["duration_ns"]),
        record=str(data["options"].get("record", "ledger")),
        steps=_count(data.get("steps", 0)),
        devices=tuple(_read_device(device) for device in data["devices"]),
        phases=tuple(_read_phase(phase, frames) for phase in data["phases"]),
        peak=_read_peak(data["peak"], frames),
        saved=Saved(**{field: _count(totals.get(key, 0)) for field, key in _TOTAL_KEYS.items()}, rows=rows),
        overhead=Overhead(
            _count(overhead["events"]),
            _count(overhead["profiler_ns"]),
            _count(overhead["profiler_bytes"]),
            _count(overhead.get("dropped_phases", 0)),
            _count(overhead.get("dropped_events", 0)),
        ),
        boundary=Boundary(**_counts(boundary, Boundary.__dataclass_fields__)) if boundary else None,
        resident=Resident(**_counts(resident, Resident.__dataclass_fields__, least=None)) if resident else None,
        exit_code=data["exit_code"],
        leaks=tuple(_read_leak(leak, frames) for leak in data.get("leaks", ())),
        hints=tuple(_read_hint(hint) for hint in data.get("hints", ())),
        timeline=_read_timeline(data["timeline"]),
        platform=dict(data["platform"]),
        options=dict(data["options"]),
    )


def _read_device(data: Mapping[str, Any]) -> DeviceUse:
    return DeviceUse(
        id=str(data["id"]),
        tracked_peak_bytes=_count(data["tracked_peak_bytes"]),
        total_bytes=_count_or_none(data.get("total_bytes")),
        budget_bytes=_count_or_none(data.get("budget_bytes")),
        begin_bytes=_count(data.get("begin_bytes", 0)),
        reserved_peak_bytes=_count_or_none(data.get("reserved_peak_bytes")),
    )


def _saved_row(row: Mapping[str, Any], frames: list[Site]) -> SavedRow:
    return SavedRow(
        module=str(row["module"]),
        op=str(row["op"]),
        slot=str(row["slot"]),
        policy=str(row["policy"]),
        count=_count(row.get("n", 1)),
        raw_bytes=_count(row["raw_bytes"]),
        resident_bytes=_count(row["resident_bytes"]),
        offloaded_bytes=_count(row.get("offloaded_bytes", 0)),
        pack_ns=_count(row["pack_ns"]),
        unpack_ns=_count(row["unpack_ns"]),
        unpacks=_count(row["unpacks"]),
        shared_bytes=_count(row.get("shared_bytes", 0)),
        shared_with=_count_or_none(row.get("shared_with")),
        shape=None if row.get("shape") is None else tuple(_count(size) for size in row["shape"]),
        dtype=str(row.get("dtype", "")),
        site=_site(row, frames),
    )


def _read_hint(hint: Mapping[str, Any]) -> Hint:
    return Hint(
        code=str(hint["code"]),
        text=str(hint["text"]),
        peak_before_bytes=_count(hint["peak_before_bytes"]),
        peak_after_bytes=_count(hint["peak_after_bytes"]),
        phase=str(hint.get("phase", "")),
        is_exact=bool(hint.get("exact", True)),
    )


def _read_leak(leak: Mapping[str, Any], frames: list[Site]) -> Leak:
    return Leak(
        nbytes=_count(leak["bytes"]),
        count=_count(leak["n"]),
        steps=tuple(_count(step) for step in leak["steps"]),
        category=str(leak["category"]),
        name=str(leak["name"]),
        module=str(leak["module"]),
        op=str(leak["op"]),
        site=_site(leak, frames),
        held_by=_read_holders(leak["held_by"], frames),
    )


def _read_timeline(data: Mapping[str, Any]) -> Timeline | None:
    if not data.get("is_recorded"):
        return None
    return Timeline(
        device=str(data["device"]),
        t_ns=tuple(_count(t_ns) for t_ns in data["t_ns"]),
        by_category={str(name): tuple(map(_count, points)) for name, points in data["by_category"].items()},
    )


def _read_holders(data: Iterable[Mapping[str, Any]], frames: list[Site]) -> tuple[Holder, ...]:
    return tuple(Holder(str(h["kind"]), str(h["what"]), _site(h, frames)) for h in data)


def _count(value: Any, least: int | None = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise ValueError(f"expected a whole number of bytes, nanoseconds or things, got {value!r}")
    return value


def _count_or_none(value: Any) -> int | None:
    return None if value is None else _count(value)


def _counts(data: Mapping[str, Any], keys: Iterable[str], least: int | None = 0) -> dict[str, int]:
    return {key: _count(data.get(key, 0), least) for key in keys}


def _categories(data: Mapping[str, Any]) -> dict[str, int]:
    return {str(name): _count(nbytes) for name, nbytes in data.items()}


def _site(data: Mapping[str, Any], frames: list[Site]) -> Site | None:
    return frames[_count(data["frame"])] if "frame" in data else None


def _read_at(data: Mapping[str, Any], frames: list[Site]) -> PeakAt:
    return PeakAt(_count(data["t_ns"]), str(data["op"]), str(data["module"]), _site(data, frames))


def _read_phase(data: Mapping[str, Any], frames: list[Site]) -> PhasePeak:
    begin, end = _count(data["begin_ns"]), _count(data["end_ns"])
    return PhasePeak(
        device=str(data["device"]),
        step=_count(data["step"]),
        phase=str(data["phase"]),
        begin_ns=begin,
        end_ns=end,
        active_ns=_count(data.get("active_ns", max(end - begin, 0))),
        begin_bytes=_count(data["begin_bytes"]),
        peak_bytes=_count(data["peak_bytes"]),
        by_category=_categories(data.get("by_category", {})),
        at=_read_at(data["peak_at"], frames),
    )


def _read_peak(data: Mapping[str, Any], frames: list[Site]) -> Peak:
    peak = Peak(
        device=str(data["device"]),
        step=_count(data["step"]),
        phase=str(data["phase"]),
        nbytes=_count(data["bytes"]),
        at=_read_at(data, frames),
        by_category=_categories(data["by_category"]),
        live=tuple(_read_live(block, frames) for block in data["live"]),
    )
    sums = sum(peak.by_category.values()), sum(block.nbytes for block in peak.live)
    if sums != (peak.nbytes, peak.nbytes):
        raise ValueError(f"the peak of {peak.nbytes} bytes is not the sum of its categories and of its blocks, {sums}")
    return peak


def _read_live(data: Mapping[str, Any], frames: list[Site]) -> LiveBlock:
    stack = data["stack"]
    return LiveBlock(
        id=_count(data["id"]),
        nbytes=_count(data["bytes"]),
        category=str(data["category"]),
        name=str(data["name"]),
        module=str(data["module"]),
        op=str(data["op"]),
        site=frames[_count(stack[0])] if stack else None,
        step=_count(data["born"]["step"]),
        phase=str(data["born"]["phase"]),
        held_by=_read_holders(data["held_by"], frames),
        stack=tuple(frames[_count(number)] for number in stack) if len(stack) > 1 else (),
        is_older=bool(data.get("is_older", False)),
    )
