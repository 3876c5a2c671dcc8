"""What recording costs: the GPT step unwatched and under each mode of the profiler, in processes that take turns.

    python benchmarks/profiler_cost.py            # five rounds
    python benchmarks/profiler_cost.py --tiny     # a toy size, to see that the script works: its figures mean nothing

Each round starts one process for each mode; the ratio is that of the medians of all timed steps, and the spread that of
the medians of the rounds. The targets: "peaks" at most 2 %, "ledger" at most 5 %.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

MODES = ("off", "peaks", "ledger", "all")
TARGETS = {"peaks": 0.02, "ledger": 0.05}


def measure(mode: str) -> None:
    """Run the GPT's steps under one mode and print a JSON line."""
    from harness import arguments, emit, time_steps
    from stowgrad_gpt import build

    from stowgrad.profiler import memory_profile

    options = arguments(__doc__.splitlines()[0])
    profile = None if mode == "off" else memory_profile(record=mode)  # type: ignore[arg-type]  # one of MODES
    with nullcontext() if profile is None else profile:
        row = time_steps(build, options)
    extra: dict[str, Any] = {}
    if profile is not None:
        report = profile.report()
        extra = {"events": report.overhead.events, "profiler_bytes": report.overhead.profiler_bytes}
        extra["stated_share"] = report.overhead.profiler_ns / max(report.duration_ns, 1)
    emit({"mode": mode, **row, **extra})


def child(mode: str, passed: list[str]) -> dict[str, Any]:
    """One process of one mode: the row that it prints.

    Raises:
        RuntimeError: if it fails, with its last line.
    """
    command = [sys.executable, str(Path(__file__).resolve()), "--mode", mode, *passed]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def main() -> int:
    """Run all rounds and print the table; 1 if a target was missed (not with ``--tiny``)."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=MODES, help="measure this mode in this process")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each mode (5)")
    options, passed = parser.parse_known_args()
    if options.mode is not None:
        sys.argv = [sys.argv[0], *passed]
        measure(options.mode)
        return 0
    tiny = "--tiny" in passed
    rows: dict[str, list[dict[str, Any]]] = {mode: [] for mode in MODES}
    for number in range(1 if tiny else options.rounds):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            rows[mode].append(child(mode, passed))
    off = statistics.median(second for row in rows["off"] for second in row["seconds"])
    print(f"{'mode':<8}{'ms a step':>11}{'cost':>9}{'stated':>9}{'events':>10}{'kept':>12}   rounds, ms")
    missed = False
    for mode in MODES:
        median = statistics.median(second for row in rows[mode] for second in row["seconds"])
        cost = median / off - 1
        last = rows[mode][-1]
        stated = f"{last['stated_share']:.2%}" if "stated_share" in last else "-"
        rounds = " ".join(f"{1e3 * row['seconds_median']:.2f}" for row in rows[mode])
        kept = f"{last['profiler_bytes'] / 1024:.0f} KiB" if "profiler_bytes" in last else "-"
        print(
            f"{mode:<8}{1e3 * median:>11.2f}{cost:>+9.2%}{stated:>9}{last.get('events', 0):>10,}{kept:>12}   {rounds}"
        )
        missed |= cost > TARGETS.get(mode, float("inf"))
    return int(missed and not tiny)


if __name__ == "__main__":
    sys.exit(main())
