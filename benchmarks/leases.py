"""Processor time, in microseconds, of a lease together with its array's death, and of scratch for one tile."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from stowgrad import memory
from stowgrad.kernels import executor

FLOAT32 = np.dtype(np.float32)
CALLS, REPEATS = 20_000, 7


def microseconds(call: Callable[[], object]) -> float:
    """The least processor time of a call, over several runs of many."""
    times = []
    for _ in range(REPEATS):
        begin = time.process_time()
        for _ in range(CALLS):
            call()
        times.append(time.process_time() - begin)
    return min(times) / CALLS * 1e6


def cases() -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    pool = memory.pool(memory.CPU)
    found: dict[str, Callable[[], object]] = {"nothing": lambda: None}
    for name, side in (("4 KiB", 32), ("64 KiB", 128), ("256 KiB", 256), ("4 MiB", 1024)):
        found[f"lease, {name}"] = lambda shape=(side, side): pool.lease(shape, FLOAT32)
    found["two leases, 64 KiB and 96 KiB"] = lambda: (pool.lease((128, 128), FLOAT32), pool.lease((128, 192), FLOAT32))
    for count in (1, 2, 3):
        specs = [((128, 128), FLOAT32)] * count
        found[f"one tile with {count} x 64 KiB of scratch"] = lambda specs=specs: executor.parallel_slices(
            lambda *tile: None, 128, 128, specs
        )
    return found


def main() -> None:
    """Print a row for each case."""
    for name, call in cases().items():
        print(f"{name:<36} {microseconds(call):6.2f}")


if __name__ == "__main__":
    main()
