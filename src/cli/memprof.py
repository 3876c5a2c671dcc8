"""The ``memprof`` command: run a program and say where its memory went, or read what was recorded before."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from ..profiler import MemoryReport, ProfileFormatError, memory_profile, render
from ..profiler.diff import PARTS, compare, diff_to_dict, failures, render_diff
from ..profiler.json_format import dump, load, schema_text
from .completion import completion
from .output import (
    CommandError,
    check_target,
    note,
    print_failures,
    print_report,
    print_text,
    terminal_width,
    write_target,
)
from .parser import make_parsers
from .target import Target, run_target, split_target
from .watch import Watch, can_watch

USAGE_ERROR = 2
CHECK_FAILED = 3
_BROKEN_PIPE = 128 + signal.SIGPIPE if hasattr(signal, "SIGPIPE") else 1


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
    parser, run_parser = make_parsers()
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
    if options.command == "completion":
        print_text(completion(parser, options.shell).rstrip())
        return 0
    return _COMMANDS[options.command](options)


# -- run ---------------------------------------------------------------------------------------------------------------


def _run(options: argparse.Namespace, target: Target) -> int:
    output = options.output or f"memprof-{target.short_name()}-{os.getpid()}.json"
    check_target(output, options.force)
    if options.fail_above is not None and options.baseline is None:
        raise CommandError("--fail-above compares with --baseline FILE; name one")
    baseline = None if options.baseline is None else _read(options.baseline)
    profile = memory_profile(options.record, max_events=options.max_events, stacks=options.stacks, steps=options.steps)
    watch = Watch(profile, options.budget) if options.watch and can_watch(sys.stderr) else nullcontext()
    with profile, watch:
        code = run_target(target, profile.failed)
    report = profile.report(target.command(), code)
    failed = [text for budget in options.budget for text in budget.failures(report)]
    shown = sys.stderr if output == "-" else sys.stdout
    try:
        if not options.quiet:
            print_report(_rendered(report, options), options.color, shown)
        if baseline is not None:
            changes = compare(baseline, report)
            failed += [] if options.fail_above is None else failures(changes, options.fail_above)
            if not options.quiet:
                names = options.baseline, "this run"
                text = render_diff(baseline, report, changes, names, _width(options))
                print_report(f"\n{text}", options.color, shown)
        write_target(output, dump(report), options.force)
    except CommandError as error:
        note(f"memprof: error: {error}")
        code = code or USAGE_ERROR
    else:
        if output != "-" and not options.quiet:
            note(f"wrote {output}   next: memprof report {output}")
    print_failures(failed, options.color)
    return CHECK_FAILED if failed else code


def _width(options: argparse.Namespace) -> int:
    return options.width or terminal_width()


def _rendered(report: MemoryReport, options: argparse.Namespace) -> str:
    return render(
        report,
        width=_width(options),
        top=None if getattr(options, "blocks", None) else options.top,
        exact=options.bytes,
        phase=getattr(options, "phase", None),
        group_by=getattr(options, "group_by", None),
    )


# -- what was recorded before ------------------------------------------------------------------------------------------


def _report(options: argparse.Namespace) -> int:
    report = _read(options.file)
    if options.json:
        print_text(dump(report).rstrip())
    else:
        print_report(_rendered(report, options), options.color)
    return 0


def _diff(options: argparse.Namespace) -> int:
    if options.old == options.new == "-":
        raise CommandError("only one of the profiles can come from stdin")
    old, new = _read(options.old), _read(options.new)
    # A failure may concern phases, also where they are not shown.
    failed = [] if options.fail_above is None else failures(compare(old, new, ("phase",)), options.fail_above)
    changes = compare(old, new, [part for part in PARTS if part in options.by])
    if options.json:
        print_text(json.dumps(diff_to_dict(changes, failed), indent=1))
    else:
        text = render_diff(old, new, changes, (options.old, options.new), _width(options))
        print_report(text, options.color)
        if options.fail_above is not None and not failed:
            print_text(f"ok: no phase grew by more than {options.fail_above}")
    print_failures(failed, options.color)
    return CHECK_FAILED if failed else 0


def _check(options: argparse.Namespace) -> int:
    report = _read(options.file)
    failed = [text for budget in options.budget for text in budget.failures(report)]
    print_failures(failed if not options.quiet else (), options.color)
    if not failed and not options.quiet:
        print_text(f"ok: {len(options.budget)} budget{'' if len(options.budget) == 1 else 's'} kept")
    return CHECK_FAILED if failed else 0


def _read(name: str) -> MemoryReport:
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CommandError(f"can't read {name}: {error.strerror or error}") from None
    try:
        return load(data)
    except ProfileFormatError as error:
        raise CommandError(f"{'stdin' if name == '-' else name}: {error}") from None


def _schema(options: argparse.Namespace) -> int:
    print_text(schema_text().rstrip())
    return 0


_COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "report": _report,
    "diff": _diff,
    "check": _check,
    "schema": _schema,
}
