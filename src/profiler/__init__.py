"""Recording who held which byte when, and reports of it."""

from __future__ import annotations

from .json_format import ProfileFormatError
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
from .profile import memory_profile, phase, step
from .text import render

__all__ = [
    "Boundary",
    "DeviceUse",
    "Hint",
    "Holder",
    "Leak",
    "LiveBlock",
    "MemoryReport",
    "Overhead",
    "Peak",
    "PeakAt",
    "PhasePeak",
    "ProfileFormatError",
    "Resident",
    "Saved",
    "SavedRow",
    "Site",
    "Timeline",
    "memory_profile",
    "phase",
    "render",
    "step",
]
