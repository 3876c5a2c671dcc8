"""What the benchmark scripts share: resident memory from /proc, timed steps, the one JSON line each script prints."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gpt_inputs import FULL, TINY, Config, batches

# `import stowgrad` after this module finds this checkout's, installed or not: the repository root holds its link.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

Step = Callable[[np.ndarray, np.ndarray], float]


def _status_bytes(field: str) -> int | None:
    """A `kB` field of /proc/self/status in bytes; None where there is no such file (not Linux)."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)


def reset_peak_resident() -> bool:
    """Set VmHWM back to VmRSS; False where the kernel does not allow it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


class ResidentGrowth:
    """Bytes by which the resident set grew at its peak since this object was made (make it before the model)."""

    def __init__(self) -> None:
        self.reset = reset_peak_resident()
        self.begin = _status_bytes("VmRSS")

    def peak(self) -> int | None:
        high = _status_bytes("VmHWM")
        return None if high is None or self.begin is None else high - self.begin


def arguments(description: str) -> argparse.Namespace:
    """The GPT scripts' options; `.config` is the model they ask for."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=6, help="timed steps (default 6)")
    parser.add_argument("--warmup", type=int, default=2, help="steps before the timed ones (default 2)")
    parser.add_argument("--tiny", action="store_true", help="a toy size, to see that the script works")
    parser.add_argument("--chunked-loss", action="store_true", help="PyTorch only: its linear_cross_entropy, in chunks")
    options = parser.parse_args()
    options.config = TINY if options.tiny else FULL
    return options


def time_steps(
    build: Callable[[Config], Step], options: argparse.Namespace, extra: Callable[[], dict[str, Any]] = dict
) -> dict[str, Any]:
    """Build the model, run warm-up and timed steps on the shared batches, and return the row to print.

    A timed step goes from the batch to the updated weights and the loss as a Python float.
    """
    growth = ResidentGrowth()
    step = build(options.config)
    data: Iterator[tuple[np.ndarray, np.ndarray]] = batches(options.config)
    losses, seconds = [], []
    for _ in range(options.warmup + options.steps):
        inputs, targets = next(data)
        begin = time.perf_counter()
        losses.append(step(inputs, targets))
        seconds.append(time.perf_counter() - begin)
    timed = seconds[options.warmup :]
    return {
        "seconds_median": statistics.median(timed), "seconds_min": min(timed), "seconds": timed, "losses": losses,
        "peak_growth_bytes": growth.peak(), "peak_was_reset": growth.reset, **extra(),
    }  # fmt: skip


def emit(row: dict[str, Any]) -> None:
    """Print the row as one line of JSON, which run.py reads."""
    print(json.dumps(row), flush=True)
