"""The ``memprof`` command: run a program and say where its memory went, or read what was recorded before."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from ..profiler import MemoryReport, ProfileFormatError, memory_profile, render
from ..profiler.build import package_version
from ..profiler.json_format import dump, load, schema_text
from ..profiler.recorder import RECORDS
from .budgets import Budget, parse_budget
from .output import CommandError, check_target, note, print_text, terminal_width, write_target
from .target import Target, run_target, split_target

USAGE_ERROR = 2
CHECK_FAILED = 3
_BROKEN_PIPE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1

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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        argv: the arguments without the program's name; those of this process by default.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            return _dispatch(arguments)
        finally:
            sys.stdout.flush()
    except CommandError as error:
        note(f"memprof: error: {error}")
        return USAGE_ERROR
    except BrokenPipeError:  # whoever reads our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE


def _dispatch(arguments: list[str]) -> int:
    parser, run_parser = _parsers()
    if not arguments:
        parser.print_help(sys.stderr)
        return USAGE_ERROR
    try:
        if arguments[0] == "run":
            own, target = split_target(arguments[1:])
            options = parser.parse_args(["run", *own])
            if target is None:
                run_parser.error("name what to run: a script, -m MODULE or -c CODE")
            return _run(options, target)
        options = parser.parse_args(arguments)
    except SystemExit as stop:  # argparse has printed help, a version or an error
        return stop.code if isinstance(stop.code, int) else 0
    return _report(options) if options.command == "report" else _schema()


def _parsers() -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    parser = argparse.ArgumentParser("memprof", description=_DESCRIPTION, allow_abbrev=False)
    parser.add_argument("-V", "--version", action="version", version=f"memprof {package_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{run,report,schema}")

    run = commands.add_parser(
        "run", help="run a program and record it", usage=_RUN_USAGE, epilog=_RUN_EPILOG, allow_abbrev=False
    )
    run.add_argument("-o", "--output", metavar="FILE", help="the profile; default memprof-NAME-PID.json, - is stdout")
    run.add_argument("-f", "--force", action="store_true", help="overwrite an existing file")
    run.add_argument(
        "--record", choices=RECORDS, default="ledger", help="peaks: figures only; ledger: also what was saved (default)"
    )
    run.add_argument(
        "--budget",
        action="append",
        default=[],
        type=_budget,
        metavar="[PHASE=]SIZE",
        help="fail with exit code 3 if a device's tracked peak (in that phase) is larger; may be repeated",
    )
    run.add_argument("-q", "--quiet", action="store_true", help="print no report and no notes")
    _add_rendering(run)

    report = commands.add_parser("report", help="print a recorded profile", allow_abbrev=False)
    report.add_argument("file", metavar="FILE", help="a profile that `memprof run` wrote; - is stdin")
    report.add_argument("--json", action="store_true", help="print JSON instead of text")
    _add_rendering(report)

    commands.add_parser("schema", help="print the JSON schema of profiles", allow_abbrev=False)
    return parser, run


def _add_rendering(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--top", type=_natural, default=6, metavar="N", help="how many blocks and rows to list (6)")
    parser.add_argument("--width", type=_natural, metavar="N", help="columns; default: the terminal's, or 100")
    parser.add_argument("--bytes", action="store_true", help="exact bytes instead of KiB, MiB and GiB")


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a whole number, got {text!r}")
    return int(text)


def _budget(text: str) -> Budget:
    try:
        return parse_budget(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


# -- run ---------------------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace, target: Target) -> int:
    output = options.output or f"memprof-{target.short_name()}-{os.getpid()}.json"
    check_target(output, options.force)
    profile = memory_profile(record=options.record)
    with profile:
        code = run_target(target)
    report = profile.report(target.command(), code)
    failures = [failure for budget in options.budget for failure in budget.failures(report)]
    try:
        if not options.quiet:
            print_text(_rendered(report, options), sys.stderr if output == "-" else sys.stdout)
        write_target(output, dump(report), options.force)
    except CommandError as error:
        note(f"memprof: error: {error}")
        code = code or USAGE_ERROR
    else:
        if output != "-" and not options.quiet:
            note(f"wrote {output}   next: memprof report {output}")
    for failure in failures:
        note(f"memprof: {failure}")
    return CHECK_FAILED if failures else code


def _rendered(report: MemoryReport, options: argparse.Namespace) -> str:
    return render(report, width=options.width or terminal_width(), top=options.top, exact=options.bytes)


# -- report and schema -------------------------------------------------------------------------------------------------


def _report(options: argparse.Namespace) -> int:
    report = _read(options.file)
    print_text(dump(report).rstrip() if options.json else _rendered(report, options))
    return 0


def _read(name: str) -> MemoryReport:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"can't read {name}: {error.strerror or error}") from None
    try:
        return load(data)
    except ProfileFormatError as error:
        raise CommandError(f"{'stdin' if name == '-' else name}: {error}") from None


def _schema() -> int:
    print_text(schema_text().rstrip())
    return 0
