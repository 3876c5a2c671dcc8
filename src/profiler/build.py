"""From a recorder's figures to a report."""

from __future__ import annotations

import os
import platform as python_platform
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter_ns

import numpy as np

from ..kernels import get_num_threads
from ..memory import CATEGORIES, available_bytes, pool
from .accounts import Account, Book, PhaseRecord
from .attribution import Lines, live_block
from .block import Block
from .hints import find_hints
from .holders import referrers
from .ledger import StepLedger
from .model import (
    DISK,
    Boundary,
    DeviceUse,
    Holder,
    Leak,
    LiveBlock,
    MemoryReport,
    Overhead,
    Peak,
    PeakAt,
    PhasePeak,
    Saved,
)
from .recorder import Recorder
from .sites import resolve
from .timeline import timeline


def build_report(recorder: Recorder, command: Sequence[str], started: datetime, exit_code: int | None) -> MemoryReport:
    """The report of what a recorder has seen up to now."""
    recorder.settle()
    book = recorder.book
    origin = recorder.started_ns
    accounts = [one for one in book.accounts.values() if one.is_used] or list(book.accounts.values())
    devices = {one.device for one in accounts}
    account = max(accounts, key=Account.importance, default=None)
    peak = _peak(account, book, origin)
    ledger = _shown_ledger(book, peak.step)
    return MemoryReport(
        version=package_version(),
        command=tuple(command),
        started=started.isoformat(timespec="seconds"),
        duration_ns=recorder.elapsed_ns(),
        record=recorder.record,
        steps=book.steps_done,
        devices=(tuple(_device(one, recorder) for one in accounts) or (DeviceUse("cpu", 0),)) + _disk(book),
        phases=tuple(_phase(record, origin) for record in book.records() if record.device in devices),
        peak=peak,
        saved=ledger.report() if ledger is not None else Saved(0),
        overhead=_overhead(recorder),
        boundary=_boundary(ledger, account, book),
        resident=recorder.resident.report(),
        exit_code=exit_code,
        leaks=_leaks(book),
        hints=() if account is None else find_hints(book, account),
        timeline=None if account is None or recorder.record != "all" else timeline(book, account, origin),
        platform=_platform(),
        options={"record": recorder.record},
    )


def _overhead(recorder: Recorder) -> Overhead:
    logs = recorder.book.logs
    dropped = 0 if logs is None else logs.total_dropped()
    return Overhead(recorder.events, recorder.profiler_ns, recorder.nbytes(), recorder.book.dropped, dropped)


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
        "threads": get_num_threads(),
    }


def _device(account: Account, recorder: Recorder) -> DeviceUse:
    device = account.device
    total = available_bytes() if device.type == "cpu" else None
    return DeviceUse(
        id=str(device),
        tracked_peak_bytes=account.peak,
        total_bytes=total,
        budget_bytes=pool(device).get_limit(),
        begin_bytes=account.begin_bytes,
        reserved_peak_bytes=recorder.resident.reserved.get(device),
    )


def _disk(book: Book) -> tuple[DeviceUse, ...]:
    return (DeviceUse(DISK, book.disk_peak),) if book.disk_peak else ()


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
    record, at = account.peak_record, account.peak_block.t_ns
    lines = Lines()
    live = [
        live_block(block, category, record.phase, at, account.peak_names, lines, is_older=block.t_ns <= origin)
        for block, category in account.at_peak(book.live).values()
        if block.nbytes
    ]
    live.sort(key=lambda one: (-one.nbytes, one.name, one.id))
    return Peak(
        device=str(account.device),
        step=record.step,
        phase=record.phase,
        nbytes=account.peak,
        at=_at(account.peak_block, at, origin),
        by_category=_by_category(account.peak_categories),
        live=tuple(live),
    )


def live_since(recorder: Recorder) -> tuple[LiveBlock, ...]:
    """What was allocated since a recording began and is still live, the largest first."""
    recorder.settle()
    lines, now = Lines(), perf_counter_ns()
    blocks = [block for block in recorder.book.live.values() if block.t_ns > recorder.started_ns and block.nbytes]
    held = referrers(frozenset(block.id for block in blocks)) if blocks else {}
    found = []
    for block in blocks:
        one = live_block(block, block.category, "", now, {}, lines, is_older=False)
        texts = held.get(block.id)
        found.append(replace(one, held_by=tuple(Holder("python", text) for text in texts)) if texts else one)
    return tuple(sorted(found, key=lambda one: (-one.nbytes, one.name, one.id)))


def _leaks(book: Book) -> tuple[Leak, ...]:
    found, lines = [], Lines()
    for blocks in book.leaks.found():
        largest = max(blocks, key=lambda block: block.nbytes)
        one = live_block(largest, largest.category, "", perf_counter_ns(), book.leaks.names, lines, is_older=False)
        found.append(
            Leak(
                nbytes=sum(block.nbytes for block in blocks),
                count=len(blocks),
                steps=tuple(sorted({block.step for block in blocks})),
                category=one.category,
                name=one.name,
                module=one.module,
                op=one.op,
                site=one.site,
                held_by=one.held_by,
            )
        )
    return tuple(found)


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
