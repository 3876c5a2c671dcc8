"""From a recorder's figures to a report."""

from __future__ import annotations

import os
import platform as python_platform
import sys
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from ..memory import CATEGORIES, available_bytes, pool
from .accounts import Account, Block, Book, PhaseRecord
from .ledger import StepLedger
from .model import (
    Boundary,
    DeviceUse,
    Holder,
    LiveBlock,
    MemoryReport,
    Overhead,
    Peak,
    PeakAt,
    PhasePeak,
    Saved,
    Site,
)
from .recorder import Recorder
from .sites import RawSite, resolve


def build_report(recorder: Recorder, command: Sequence[str], started: datetime, exit_code: int | None) -> MemoryReport:
    """The report of what a recorder has seen up to now."""
    recorder.settle()
    book = recorder.book
    origin = recorder.started_ns
    accounts = [one for one in book.accounts.values() if one.is_used] or list(book.accounts.values())
    devices = {one.device for one in accounts}
    account = max(accounts, key=_importance, default=None)
    peak = _peak(account, book, origin)
    ledger = _shown_ledger(book, peak.step)
    return MemoryReport(
        version=package_version(),
        command=tuple(command),
        started=started.isoformat(timespec="seconds"),
        duration_ns=recorder.elapsed_ns(),
        record=recorder.record,
        steps=book.steps_done,
        devices=tuple(_device(one) for one in accounts) or (DeviceUse("cpu", 0),),
        phases=tuple(_phase(record, origin) for record in book.records() if record.device in devices),
        peak=peak,
        saved=ledger.report() if ledger is not None else Saved(0),
        overhead=Overhead(recorder.events, recorder.profiler_ns, recorder.nbytes(), book.dropped),
        boundary=_boundary(ledger, account, book),
        resident=recorder.resident.report(),
        exit_code=exit_code,
        platform=_platform(),
        options={"record": recorder.record},
    )


def package_version() -> str:
    """The version of this package: as it says itself, or as it was installed."""
    name = __name__.partition(".")[0]
    own = getattr(sys.modules.get(name), "__version__", None)
    if own is not None:
        return str(own)
    try:
        return version(name)
    except PackageNotFoundError:
        return "0+unknown"


def _platform() -> dict[str, str | int]:
    return {
        "system": python_platform.system(),
        "machine": python_platform.machine(),
        "python": python_platform.python_version(),
        "numpy": np.__version__,
        "cpus": os.cpu_count() or 1,
    }


def _importance(account: Account) -> tuple[bool, bool, int]:
    """The report is about the accelerator with the highest peak, or else the host."""
    kind = account.device.type
    return kind not in ("cpu", "meta"), kind != "meta", account.peak


def _device(account: Account) -> DeviceUse:
    device = account.device
    total = available_bytes() if device.type == "cpu" else None
    return DeviceUse(str(device), account.peak, total, pool(device).get_limit())


def _by_category(totals: Sequence[int]) -> dict[str, int]:
    return {name: nbytes for name, nbytes in zip(CATEGORIES, totals, strict=True) if nbytes}


def _phase(record: PhaseRecord, origin: int) -> PhasePeak:
    return PhasePeak(
        device=str(record.device),
        step=record.step,
        phase=record.phase,
        begin_ns=max(record.begin_ns - origin, 0),
        end_ns=max(record.end_ns - origin, 0),
        active_ns=record.active_ns,
        begin_bytes=record.begin_bytes,
        peak_bytes=record.peak_bytes,
        by_category=_by_category(record.categories),
        at=_at(record.peak_block, record.peak_ns, origin),
    )


def _at(block: Block | None, now: int, origin: int) -> PeakAt:
    if block is None:
        return PeakAt(max(now - origin, 0), "", "")
    return PeakAt(max(block.t_ns - origin, 0), block.op, block.module, resolve(block.site))


# -- the peak ----------------------------------------------------------------------------------------------------------


def _peak(account: Account | None, book: Book, origin: int) -> Peak:
    if account is None or account.peak_block is None:
        device = "cpu" if account is None else str(account.device)
        return Peak(device, 0, "setup", 0, PeakAt(0, "", ""), {}, ())
    record = account.peak_record
    lines: dict[RawSite | None, Site | None] = {}
    live = [
        _live_block(block, category, record.phase, lines)
        for block, category in account.at_peak(book.live).values()
        if block.nbytes
    ]
    live.sort(key=lambda one: (-one.nbytes, one.id))
    return Peak(
        device=str(account.device),
        step=record.step,
        phase=record.phase,
        nbytes=account.peak,
        at=_at(account.peak_block, account.peak_block.t_ns, origin),
        by_category=_by_category(account.peak_categories),
        live=tuple(live),
    )


def _live_block(block: Block, category: str, peak_phase: str, lines: dict[RawSite | None, Site | None]) -> LiveBlock:
    if block.site not in lines:
        lines[block.site] = resolve(block.site)
    site = lines[block.site]
    return LiveBlock(
        id=block.id,
        nbytes=block.nbytes,
        category=category,
        name=block.name or _description(block),
        module=block.module,
        op=block.op,
        site=site,
        step=block.step,
        phase=block.phase,
        held_by=(_holder(block, category, peak_phase, site),),
    )


def _description(block: Block) -> str:
    """What a block is, for one that has no name: its op, shape and dtype."""
    shape = "" if block.shape is None else "x".join(map(str, block.shape)) or "scalar"
    dtype = "" if block.dtype is None else str(block.dtype)
    return " ".join(part for part in (block.op, shape, dtype) if part)


def _holder(block: Block, category: str, peak_phase: str, site: Site | None) -> Holder:
    """Who keeps a block alive, as far as its events tell."""
    if category in ("parameter", "buffer", "gradient"):
        return Holder("module", f"{category} {block.name}".rstrip())
    if category in ("optimizer_state", "optimizer_temporary"):
        return Holder("optimizer", block.op or "step")
    if block.saved_by is not None:
        return Holder("saved_tensor", ": ".join(block.saved_by), site)
    if category == "saved_packed":
        return Holder("saved_tensor", f"packed, {block.op}" if block.op else "packed", site)
    if category == "input":
        return Holder("python", "memory of the user's own", site)
    if category == "temporary" or (block.phase == peak_phase and peak_phase in ("backward", "recompute")):
        return Holder("engine", block.op or "backward", site)
    return Holder("unknown", "", site)


# -- saved values ------------------------------------------------------------------------------------------------------


def _shown_ledger(book: Book, peak_step: int) -> StepLedger | None:
    """The ledger of the step with the peak, if it saved anything, or else of the step that saved most."""
    ledgers = {**book.ledgers, book.ledger.step: book.ledger}
    with_values = [ledger for ledger in ledgers.values() if ledger.total.count]
    if peak_step in ledgers and ledgers[peak_step].total.count:
        return ledgers[peak_step]
    return max(with_values, key=lambda ledger: ledger.total.raw, default=None)


def _boundary(ledger: StepLedger | None, account: Account | None, book: Book) -> Boundary | None:
    if ledger is None or account is None or ledger.boundary is None:
        return None
    used, raw, resident = ledger.boundary
    backward = [
        record.peak_bytes
        for record in book.records()
        if record.device is account.device and record.step == ledger.step and record.phase in ("backward", "recompute")
    ]
    return Boundary(ledger.step, used.get(account.device, 0), raw, resident, max(backward, default=0))
