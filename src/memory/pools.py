"""The pools of this process, one for each device, and PyTorch's names for their figures."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from .backing import Backing, HostBacking, MetaBacking, SimBacking
from .device import CPU, META, Device, DeviceLike, as_device
from .limits import limit_from_environment, resolve_limit
from .pool import MemoryPool, live_storages
from .sizes import format_size
from .storage import Storage, root_of

_pools: dict[Device, MemoryPool] = {}
_creation = threading.Lock()


def pool(device: DeviceLike | None = None) -> MemoryPool:
    """The pool of a device, made on first use; the CPU's by default."""
    found = _pools.get(device)  # type: ignore[arg-type]  # a name or None simply isn't found
    if found is not None:
        return found
    device = as_device(device)
    with _creation:
        found = _pools.get(device)
        if found is None:
            if not _pools:
                os.register_at_fork(after_in_child=_after_fork)
            limit = limit_from_environment() if device is CPU else None
            found = _pools[device] = MemoryPool(device, _backing(device), limit)
    return found


def _backing(device: Device) -> Backing:
    if device.type == "cuda":
        from .cuda import CudaBacking

        return CudaBacking(device, pool)
    if device.type == "sim":
        return SimBacking()
    return MetaBacking() if device is META else HostBacking()


def _after_fork() -> None:
    global _creation
    _creation = threading.Lock()
    for known in _pools.values():
        known.forget_lock()


def storage_of(array: Any) -> Storage | None:
    """The storage that holds an array's bytes, or None for an array that no pool counts."""
    owner = root_of(array) if isinstance(array, np.ndarray) else array.data.mem
    found = live_storages.get(id(owner))
    # One that has died but was not counted yet may have had an owner at the same address.
    return found if found is not None and found() is owner else None


def storage_for_user(array: Any, device: Device = CPU) -> Storage:
    """The storage of a user's array, counted from now on: memory has one storage however often it comes in."""
    found = storage_of(array)
    if found is not None:
        return found
    if isinstance(array, np.ndarray):
        root = root_of(array)
        return pool(device).adopt_user(root, root.nbytes)
    memory = array.data.mem
    return pool(device).adopt_user(memory, int(memory.size))


def settle() -> None:
    """Count what has died on all devices since the pools were last asked for anything; observers are told."""
    for known in list(_pools.values()):
        known.used_bytes()


def memory_allocated(device: DeviceLike | None = None) -> int:
    """Bytes of all live tensors on a device, as asked for."""
    return pool(device).used_bytes()


def max_memory_allocated(device: DeviceLike | None = None) -> int:
    """The highest `memory_allocated` since the start or `reset_peak_memory_stats`, in bytes."""
    return pool(device).peak_bytes()


def memory_reserved(device: DeviceLike | None = None) -> int:
    """Bytes that the pool of a device has taken: in use and cached."""
    return pool(device).total_bytes()


def reset_peak_memory_stats(device: DeviceLike | None = None) -> None:
    """Start `max_memory_allocated` anew."""
    pool(device).reset_peak()


def empty_cache() -> None:
    """Give the cached blocks of all devices back to the system."""
    for known in list(_pools.values()):
        known.free_all_blocks()


def set_limit(limit: int | str | None, device: DeviceLike | None = None) -> None:
    """Set the most memory that a device's tensors may take: a hard limit for this process.

    Args:
        limit: bytes, a text such as ``"1.5 GiB"``, ``"auto"`` (nine tenths of what the machine or the control group
            has), or None for no limit.
        device: the device; the CPU by default.

    Raises:
        MemoryBudgetError: if more is in use already; the limit stays as it was.
        ValueError, TypeError: if ``limit`` is no size.
    """
    pool(device).set_limit(resolve_limit(limit))


def get_limit(device: DeviceLike | None = None) -> int | None:
    """The limit of a device in bytes, or None."""
    return pool(device).get_limit()


def memory_stats(device: DeviceLike | None = None) -> dict[str, int]:
    """The pool's figures in bytes, under PyTorch's keys where it has them, and bytes in use by category."""
    of = pool(device)
    stats = {
        "allocated_bytes.all.current": of.used_bytes(),
        "allocated_bytes.all.peak": of.peak_bytes(),
        "active_bytes.all.current": of.held_bytes(),
        "reserved_bytes.all.current": of.total_bytes(),
        "inactive_split_bytes.all.current": of.free_bytes(),
        "num_alloc_retries": of.collections,
    }
    stats.update({f"category_bytes.{name}.current": size for name, size in of.bytes_by_category().items()})
    return stats


def memory_summary(device: DeviceLike | None = None) -> str:
    """The pool's figures as a table for people."""
    of = pool(device)
    limit = of.get_limit()
    rows = [
        ("in use", of.used_bytes()),
        ("highest in use", of.peak_bytes()),
        ("in blocks", of.held_bytes()),
        ("cached", of.free_bytes()),
        *((f"  {name}", size) for name, size in of.bytes_by_category().items() if size),
    ]
    lines = [f"memory of {of.device}, limit {'none' if limit is None else format_size(limit)}"]
    lines += [f"  {name:<24}{format_size(size):>12}" for name, size in rows]
    return "\n".join(lines)
