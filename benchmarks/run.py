"""All benchmarks, as fresh alternating processes (A B C A B C ...), and one table beside PyTorch and the NumPy floor.

    python benchmarks/run.py [--quick] [--rounds N] [--tiny] [--json FILE]

OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are taken out of the children's environment: where they are set they make
OpenBLAS use the kernels of another processor, which can halve its speed. Rows whose library isn't installed say so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SLOWING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
MIB = 1 << 20
LOSS_TOLERANCE = 1e-4  # relative, over the ten steps; float32 alone gives about 1e-6
RESIDENT_SLACK = 60_000_000  # bytes of resident growth that the pool's figures need not explain

Row = dict[str, Any]


@dataclass
class Program:
    """One script of this folder and the rows it printed, one a round."""

    label: str
    script: str
    arguments: tuple[str, ...] = ()
    needs: str | None = None
    rows: list[Row] = field(default_factory=list)
    problem: str | None = None

    def median(self, pick: Callable[[Row], float | None]) -> float | None:
        values = [value for row in self.rows if (value := pick(row)) is not None]
        return statistics.median(values) if values else None

    def spread(self, pick: Callable[[Row], float | None]) -> tuple[float, float] | None:
        values = [value for row in self.rows if (value := pick(row)) is not None]
        return (min(values), max(values)) if values else None


def programs() -> dict[str, Program]:
    """Everything to run, in the order of a round."""
    return {
        "ops_stowgrad": Program("stowgrad", "small_ops_stowgrad.py"),
        "ops_torch": Program("PyTorch", "small_ops_torch.py", needs="torch"),
        "numpy": Program("NumPy by hand", "numpy_gpt.py"),
        "stowgrad": Program("stowgrad", "stowgrad_gpt.py"),
        "torch": Program("PyTorch", "torch_gpt.py", needs="torch"),
        "torch_chunked": Program("PyTorch, loss in chunks", "torch_gpt.py", ("--chunked-loss",), needs="torch"),
    }


def environment() -> dict[str, str]:
    """The children's environment: ours without the variables that slow OpenBLAS down."""
    return {name: value for name, value in os.environ.items() if name not in SLOWING}


def child(arguments: list[str]) -> Row:
    """Run one script in a fresh process and return the JSON of its last line; RuntimeError with its last error line."""
    command = [sys.executable, *arguments]
    done = subprocess.run(command, env=environment(), cwd=HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise RuntimeError(last)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def run_round(everything: dict[str, Program], tiny: bool) -> None:
    """One fresh process of each program; one that fails is not started again."""
    for program in everything.values():
        if program.problem is not None:
            continue
        extra = ["--tiny"] if tiny and program.script.endswith("_gpt.py") else []
        print(f"  {program.script} {' '.join(program.arguments)}", file=sys.stderr, flush=True)
        try:
            program.rows.append(child([str(HERE / program.script), *program.arguments, *extra]))
        except RuntimeError as error:
            program.problem = f"failed: {error}"


# --- the machine ---


def facts() -> Row:
    """What a reader needs to judge the figures. Runs in a child, so that BLAS is loaded as the benchmarks load it."""
    import numpy as np
    from threadpoolctl import threadpool_info

    blas = [f"{b['internal_api']} {b['version']} {b.get('architecture', '')}".strip() for b in threadpool_info()]
    found: Row = {
        "processor": processor(), "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "system": platform.platform(), "python": platform.python_version(), "numpy": np.__version__, "blas": blas,
        "torch": None,
    }  # fmt: skip
    if importlib.util.find_spec("torch"):
        import torch

        capability = torch.backends.cpu.get_cpu_capability()
        found["torch"] = f"{torch.__version__}, {torch.get_num_threads()} threads, {capability}"
    return found


def processor() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


# --- the table ---


def seconds(row: Row) -> float:
    """Seconds a step."""
    return float(row["seconds_median"])


def growth(row: Row) -> float | None:
    """Peak growth of the resident set in MiB."""
    return None if row["peak_growth_bytes"] is None else row["peak_growth_bytes"] / MIB


def ratio(value: float | None, other: float | None) -> str:
    """A cell: value / other, or a dash where one is missing."""
    return f"{value / other:.2f}" if value is not None and other else "-"


def small_op_table(everything: dict[str, Program]) -> list[str]:
    """Lines of the table of small operations."""
    lines = [
        "| small operations, µs each | forward | backward | total | total, min-max | x PyTorch |",
        "|---|---|---|---|---|---|",
    ]
    for kind, note in (("plain", ""), ("hooks", ", identity saved-tensor hooks")):
        for key in ("ops_stowgrad", "ops_torch"):
            program = everything[key]
            if program.problem:
                lines.append(f"| {program.label}{note} | {program.problem} | | | | |")
                continue

            def total(row: Row, kind: str = kind) -> float:
                return float(row[kind]["total_us"])

            forward = program.median(lambda row, kind=kind: float(row[kind]["forward_us"]))  # type: ignore[misc]
            backward = program.median(lambda row, kind=kind: float(row[kind]["backward_us"]))  # type: ignore[misc]
            low, high = program.spread(total) or (0.0, 0.0)
            beside = ratio(program.median(total), everything["ops_torch"].median(total))
            cells = f"{forward:.2f} | {backward:.2f} | {program.median(total):.2f} | {low:.2f}-{high:.2f} | {beside}"
            lines.append(f"| {program.label}{note} | {cells} |")
    return lines


def gpt_table(everything: dict[str, Program]) -> list[str]:
    """Lines of the table of the GPT step."""
    lines = [
        "| GPT step | s a step | min-max | x PyTorch | x NumPy | peak growth MiB | x PyTorch | pool + cached MiB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    torch, numpy = everything["torch"], everything["numpy"]
    for program in (everything[key] for key in ("numpy", "stowgrad", "torch", "torch_chunked")):
        if program.problem:
            lines.append(f"| {program.label} | {program.problem} | | | | | | |")
            continue
        time, peak = program.median(seconds), program.median(growth)
        low, high = program.spread(seconds) or (0.0, 0.0)
        pool = program.median(pool_bytes)
        cells = [
            f"{time:.3f}", f"{low:.3f}-{high:.3f}",
            ratio(time, torch.median(seconds)), ratio(time, numpy.median(seconds)),
            "-" if peak is None else f"{peak:.0f}", ratio(peak, torch.median(growth)),
            "-" if pool is None else f"{pool / MIB:.0f}",
        ]  # fmt: skip
        lines.append(f"| {program.label} | {' | '.join(cells)} |")
    return lines


def pool_bytes(row: Row) -> float | None:
    """The pool's tracked peak and its cache, for stowgrad's row."""
    return row["tracked_peak_bytes"] + row["cached_bytes"] if "tracked_peak_bytes" in row else None


def unexplained_bytes(row: Row) -> float | None:
    """Resident growth beyond what the pool accounts for."""
    return None if row["peak_growth_bytes"] is None else row["peak_growth_bytes"] - (pool_bytes(row) or 0)


def loss_lines(everything: dict[str, Program]) -> tuple[list[str], bool]:
    """How far every program's losses are from the NumPy floor's, and whether all are near enough."""
    lines, good = [], True
    base = everything["numpy"].rows
    for key in ("stowgrad", "torch", "torch_chunked"):
        if not base or not everything[key].rows:
            continue
        pairs = zip(base[0]["losses"], everything[key].rows[0]["losses"], strict=True)
        far = max(abs(a - b) / abs(a) for a, b in pairs)
        good = good and far <= LOSS_TOLERANCE
        verdict = "agree" if far <= LOSS_TOLERANCE else "DO NOT AGREE"
        lines.append(f"losses of {everything[key].label} and NumPy {verdict}: {far:.1e} apart at most (relative)")
    return lines, good


def target_lines(everything: dict[str, Program]) -> list[str]:
    """stowgrad's figures beside the project's targets."""
    ours, theirs, numpy = everything["stowgrad"], everything["torch"], everything["numpy"]

    def ops(key: str, kind: str = "plain") -> float | None:
        return everything[key].median(lambda row: row[kind]["total_us"])

    wanted = (
        ("small operation / PyTorch", ops("ops_stowgrad"), ops("ops_torch"), 1.6),
        ("GPT step / NumPy by hand", ours.median(seconds), numpy.median(seconds), 1.15),
        ("GPT step / PyTorch", ours.median(seconds), theirs.median(seconds), 1.0),
        ("GPT peak growth / PyTorch", ours.median(growth), theirs.median(growth), 0.7),
    )
    lines = []
    for name, value, other, limit in wanted:
        if value is not None and other is not None:
            met = "met" if value / other <= limit else "MISSED"
            lines.append(f"target {name} <= {limit}: {value / other:.2f}, {met}")
    unexplained = ours.median(unexplained_bytes)
    if unexplained is not None:
        met = "met" if unexplained <= RESIDENT_SLACK else "MISSED"
        lines.append(f"target resident growth - (pool peak + cached) <= 60 MB: {unexplained / 1e6:.0f} MB, {met}")
    return lines


def report(machine: Row, everything: dict[str, Program]) -> tuple[str, bool]:
    """The whole text, and whether losses agree and nothing failed."""
    removed = [name for name in SLOWING if name in os.environ]
    lines = [f"{name}: {', '.join(value) if isinstance(value, list) else value}" for name, value in machine.items()]
    lines.append(
        f"unset for the benchmarks: {', '.join(removed) or 'nothing (no variable that slows OpenBLAS was set)'}"
    )
    losses, good = loss_lines(everything)
    good = good and not any(p.problem and p.problem.startswith("failed") for p in everything.values())
    parts = [lines, small_op_table(everything), gpt_table(everything), losses, target_lines(everything)]
    return "\n\n".join("\n".join(part) for part in parts if part), good


def main() -> int:
    """Run the rounds and print the report; 1 when a program failed or losses disagree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=None, help="processes of each kind (default 5)")
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--tiny", action="store_true", help="a toy model: to see that everything runs, not for figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every process's row to FILE")
    parser.add_argument("--facts", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.facts:
        print(json.dumps(facts()))
        return 0
    rounds = options.rounds or (2 if options.quick else 5)
    everything = programs()
    for program in everything.values():
        if program.needs and importlib.util.find_spec(program.needs) is None:
            program.problem = "not installed"
    machine = child([__file__, "--facts"])
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        run_round(everything, options.tiny)
    text, good = report(machine, everything)
    print(text)
    if options.json:
        rows = {key: {"problem": p.problem, "rows": p.rows} for key, p in everything.items()}
        options.json.write_text(json.dumps({"machine": machine, "rounds": rounds, **rows}, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
