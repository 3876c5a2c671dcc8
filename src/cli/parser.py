"""The options of the ``memprof`` command."""

from __future__ import annotations

import argparse

from ..profiler.build import package_version
from ..profiler.diff import PARTS, Growth, parse_growth
from ..profiler.log import DEFAULT_MOST
from ..profiler.model import PHASES
from ..profiler.recorder import RECORDS
from .budgets import Budget, parse_budget
from .colour import CHOICES

SHELLS = ("bash", "zsh", "fish")
_DESCRIPTION = "Record the memory of a stowgrad program: exact peaks by phase, what was live, what was saved."
_RUN_USAGE = (
    "memprof run [options] [--] SCRIPT [ARGS ...]\n"
    "       memprof run [options] -m MODULE [ARGS ...]\n"
    "       memprof run [options] -c CODE [ARGS ...]"
)
_RUN_EPILOG = (
    "Everything after SCRIPT, MODULE or CODE belongs to the program. The profile and the report are written also when"
    " it fails, is interrupted or runs out of its memory limit. Exit code: the program's own; 3 if a --budget was"
    " passed; 2 for wrong usage."
)


def make_parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """The command's parser, and that of ``run``."""
    parser = argparse.ArgumentParser("memprof", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("-V", "--version", action="version", version=f"memprof {package_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{run,report,diff,check,schema,completion}")
    run = commands.add_parser(
        "run", help="run a program and record it", usage=_RUN_USAGE, epilog=_RUN_EPILOG, allow_abbrev=False
    )
    _add_run(run)
    report = commands.add_parser("report", help="print a recorded profile", allow_abbrev=False)
    _add_report(report)
    diff = commands.add_parser("diff", help="compare two profiles", allow_abbrev=False)
    _add_diff(diff)
    check = commands.add_parser("check", help="hold a recorded profile against budgets", allow_abbrev=False)
    check.add_argument("file", metavar="FILE", help="a profile; - is stdin")
    _add_budget(check, required=True)
    _add_color(check)
    check.add_argument("-q", "--quiet", action="store_true", help="say nothing, the exit code tells")
    commands.add_parser("schema", help="print the JSON schema of profiles", allow_abbrev=False)
    completion = commands.add_parser("completion", help="print a completion script for a shell", allow_abbrev=False)
    completion.add_argument("shell", choices=SHELLS)
    return parser, run


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument("-o", "--output", metavar="FILE", help="the profile; default memprof-NAME-PID.json, - is stdout")
    run.add_argument("-f", "--force", action="store_true", help="overwrite an existing file")
    run.add_argument(
        "--record",
        choices=RECORDS,
        default="ledger",
        help="peaks: figures only; ledger: also what was saved, holders and hints (default); all: also every event",
    )
    run.add_argument("--steps", type=_steps, metavar="A:B", help="record steps A to B-1 only, counted from 0")
    run.add_argument("--stacks", type=_natural, default=8, metavar="N", help="frames kept with --record all (8; 0 off)")
    run.add_argument(
        "--max-events", type=_natural, default=DEFAULT_MOST, metavar="N", help=f"events kept in memory ({DEFAULT_MOST})"
    )
    _add_budget(run, required=False)
    run.add_argument("--baseline", metavar="FILE", help="a profile to compare with at the end")
    run.add_argument(
        "--fail-above", type=_growth, metavar="N%|SIZE", help="exit with 3 if --baseline is passed by more"
    )
    run.add_argument("--watch", action="store_true", help="one line on a terminal that shows where the memory is")
    run.add_argument("-q", "--quiet", action="store_true", help="print no report and no notes")
    _add_rendering(run)


def _add_report(report: argparse.ArgumentParser) -> None:
    report.add_argument("file", metavar="FILE", help="a profile that `memprof run` wrote; - is stdin")
    report.add_argument("--json", action="store_true", help="print JSON instead of text")
    report.add_argument("--blocks", choices=("all",), help="list all blocks and rows")
    report.add_argument("--phase", choices=PHASES, help="the records of this phase, one a step")
    report.add_argument("--group-by", choices=("module", "op", "line"), help="the blocks at the peak in groups")
    _add_rendering(report)


def _add_diff(diff: argparse.ArgumentParser) -> None:
    diff.add_argument("old", metavar="OLD", help="a profile")
    diff.add_argument("new", metavar="NEW", help="another one; one of both may be -, which is stdin")
    diff.add_argument(
        "--fail-above", type=_growth, metavar="N%|SIZE", help="exit with 3 if the peak or a phase grew by more"
    )
    diff.add_argument("--by", type=_parts, default=PARTS, metavar="PARTS", help=f"what to compare: {','.join(PARTS)}")
    diff.add_argument("--json", action="store_true", help="print JSON instead of text")
    _add_layout(diff)


def _add_budget(parser: argparse.ArgumentParser, required: bool) -> None:
    parser.add_argument(
        "--budget",
        action="append",
        default=[],
        required=required,
        type=_budget,
        metavar="[PHASE=]SIZE",
        help="fail with exit code 3 if a device's tracked peak (in that phase) is larger; may be repeated",
    )


def _add_rendering(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top", type=_natural, default=6, metavar="N", help="how many blocks and rows to list (6)")
    parser.add_argument("--bytes", action="store_true", help="exact bytes instead of KiB, MiB and GiB")
    _add_layout(parser)


def _add_layout(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--width", type=_natural, metavar="N", help="columns; default: the terminal's, or 100")
    _add_color(parser)


def _add_color(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--color", choices=CHOICES, default="auto", help="mark the peak: auto does so on terminals")


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}")
    return int(text)


def _budget(text: str) -> Budget:
    try:
        return parse_budget(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _growth(text: str) -> Growth:
    try:
        return parse_growth(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _steps(text: str) -> tuple[int, int | None]:
    first, colon, last = text.partition(":")
    if not colon or not (first or "0").isdecimal() or not (last or "0").isdecimal():
        raise argparse.ArgumentTypeError(f"expected steps such as 2:5, 2: or :5, got {text!r}")
    steps = int(first or 0), int(last) if last else None
    if steps[1] is not None and steps[1] <= steps[0]:
        raise argparse.ArgumentTypeError(f"no step lies in {text!r}: the second number is the one after the last step")
    return steps


def _parts(text: str) -> tuple[str, ...]:
    parts = tuple(text.split(","))
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"can't compare by {unknown[0]!r}; expected some of {','.join(PARTS)}")
    return parts
