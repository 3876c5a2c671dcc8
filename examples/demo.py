"""The same small GPT, trained in every memory mode in a fresh process each, side by side: ``make demo``.

Ends with exit code 1 if a mode that keeps everything exactly does not end with the very model that plain training does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from training import MODES

from stowgrad.memory import format_size

EXAMPLES = Path(os.path.relpath(Path(__file__).resolve().parent))
MEMPROF = str(EXAMPLES.parent / "tools" / "memprof.py")
TRAIN = str(EXAMPLES / "train_text.py")
LOSSY = ("bfloat16",)
REPORTED_MODE = "combined"
_REPORTED_STEPS = 3
_COLUMNS = ("mode", "forward peak", "backward peak", "saved", "in memory", "s a step", "validation loss", "as plain")


def main() -> int:
    """Run all modes, print the table and a memory report; 0 if all is as it should be."""
    parser = argparse.ArgumentParser(description="Train a small GPT in several memory modes and compare them.")
    parser.add_argument("--steps", type=int, default=200, help="training steps in each mode (200)")
    options, more = parser.parse_known_args()
    settings = ["--steps", str(options.steps), *more]
    try:
        with tempfile.TemporaryDirectory(prefix="stowgrad-demo-") as scratch:
            results = [train(mode, settings, scratch) for mode in MODES]
            print_table(results)
            report(["--steps", str(_REPORTED_STEPS), *more], scratch)
    except subprocess.CalledProcessError as error:
        print(f"demo: error: {' '.join(error.cmd[1:])} failed", file=sys.stderr)
        return 1
    wrong = [result["mode"] for result in results if not is_same(result, results[0]) and result["mode"] not in LOSSY]
    if wrong:
        print(f"demo: error: not the same model as plain training: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def train(mode: str, settings: list[str], scratch: str) -> dict[str, Any]:
    """Train in one mode and return its figures; plain training also shows a text by the model."""
    print(f"== {mode}: what backward needs is {MODES[mode]}", flush=True)
    figures = Path(scratch, f"{mode}.json")
    command = [sys.executable, TRAIN, "--mode", mode, "--directory", scratch, "--json", str(figures), *settings]
    sample: list[str] = [] if mode == "plain" else ["--sample", "0"]
    subprocess.run([*command, *sample], check=True)
    print(flush=True)
    result: dict[str, Any] = json.loads(figures.read_text(encoding="utf-8"))
    return result


def is_same(result: dict[str, Any], plain: dict[str, Any]) -> bool:
    """Whether two runs ended with the same validation loss and the same parameters, bit for bit."""
    return all(result[name] == plain[name] for name in ("validation_loss", "training_loss", "checksum"))


def print_table(results: list[dict[str, Any]]) -> None:
    """One line a mode."""
    rows = [_COLUMNS]
    for result in results:
        verdict = "yes" if is_same(result, results[0]) else "no"
        rows.append(
            (
                result["mode"],
                *(
                    "-" if result[name] is None else format_size(result[name])
                    for name in (
                        "forward_peak_bytes",
                        "backward_peak_bytes",
                        "saved_raw_bytes",
                        "saved_resident_bytes",
                    )
                ),
                "-" if result["seconds_per_step"] is None else f"{result['seconds_per_step']:.3f}",
                f"{result['validation_loss']:.9f}",
                f"{verdict}, lossy" if result["mode"] in LOSSY else verdict,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        first, *rest = (text.ljust(w) if at == 0 else text.rjust(w) for at, (text, w) in enumerate(zip(row, widths)))
        print("  ".join((first, *rest)))
    print(
        "\nPeaks are of live tensors in a step; saved: what forward keeps for backward, as tensors and in memory;"
        "\nas plain: the same losses and parameters at the end, bit for bit.\n",
        flush=True,
    )


def report(settings: list[str], scratch: str) -> None:
    """Record a few steps with memprof and show its report."""
    print(f"== memprof run train_text.py --mode {REPORTED_MODE} {' '.join(settings)}; memprof report\n", flush=True)
    profile = str(Path(scratch, "profile.json"))
    program = [TRAIN, "--mode", REPORTED_MODE, "--quiet", *settings]
    subprocess.run([sys.executable, MEMPROF, "run", "--quiet", "--output", profile, *program], check=True)
    subprocess.run([sys.executable, MEMPROF, "report", profile], check=True)


if __name__ == "__main__":
    sys.exit(main())
