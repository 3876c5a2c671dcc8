"""Budgets on the command line: ``600MiB`` for the whole run, ``backward=600MiB`` for one phase."""

from __future__ import annotations

from dataclasses import dataclass

from ..memory import format_size, parse_size
from ..profiler import MemoryReport
from ..profiler.model import DISK, PHASES, highest


@dataclass(frozen=True)
class Budget:
    """The most bytes that each device may track, in one phase or in all of them (``phase`` None); files don't count."""

    phase: str | None
    nbytes: int

    def failures(self, report: MemoryReport) -> list[str]:
        """One line for each device that passed the budget."""
        return [
            f"peak {_exact(peak)} > budget {_exact(self.nbytes)} (+{_exact(peak - self.nbytes)},"
            f" {_share(peak, self.nbytes)}) in {self.phase or _highest_phase(report, device.id)} on {device.id}"
            for device in report.devices
            if device.id != DISK and (peak := report.peak_bytes(self.phase, device.id)) > self.nbytes
        ]


def _highest_phase(report: MemoryReport, device: str) -> str:
    record = highest(phase for phase in report.phases if phase.device == device)
    return report.peak.phase if record is None else record.phase


def _exact(nbytes: int) -> str:
    """A rounded size, unless rounding would hide a small excess."""
    return format_size(nbytes) if nbytes >= 1 << 20 else f"{nbytes:,} B"


def _share(peak: int, budget: int) -> str:
    return f"{(peak - budget) / budget:.1%}" if budget else "no memory was allowed"


def parse_budget(text: str) -> Budget:
    """A budget from its text.

    Raises:
        ValueError: for an unknown phase, or a size that is none.

    >>> parse_budget("backward=1 KiB")
    Budget(phase='backward', nbytes=1024)
    """
    phase, equals, size = text.rpartition("=")
    if equals and phase not in PHASES:
        raise ValueError(f"unknown phase {phase!r}; expected one of {', '.join(PHASES)}")
    return Budget(phase if equals else None, parse_size(size))
