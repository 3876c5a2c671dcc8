"""Who owns the bytes: devices, storages, the memory pools and the event stream."""

from __future__ import annotations

from . import events
from .cuda import import_cupy, referable_array
from .device import CPU, META, Device, DeviceLike, as_device
from .errors import MemoryBudgetError
from .limits import available_bytes
from .peak import PeakScope
from .pool import SMALL_BYTES, MemoryPool
from .pools import (
    empty_cache,
    get_limit,
    max_memory_allocated,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_summary,
    pool,
    reset_peak_memory_stats,
    set_limit,
    settle,
    storage_for_user,
    storage_of,
)
from .sizes import format_size, parse_size
from .storage import CATEGORIES, Storage

__all__ = [
    "CATEGORIES",
    "CPU",
    "META",
    "SMALL_BYTES",
    "Device",
    "DeviceLike",
    "MemoryBudgetError",
    "MemoryPool",
    "PeakScope",
    "Storage",
    "as_device",
    "available_bytes",
    "empty_cache",
    "events",
    "format_size",
    "get_limit",
    "import_cupy",
    "max_memory_allocated",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "parse_size",
    "pool",
    "referable_array",
    "reset_peak_memory_stats",
    "set_limit",
    "settle",
    "storage_for_user",
    "storage_of",
]
