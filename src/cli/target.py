"""The program that ``memprof run`` records, run in this process as ``python`` would run it."""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import traceback
import types
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Literal

from .output import CommandError, note

# Options of `memprof run` that take a value, which is no name of a script.
_WITH_VALUE = (
    *("-o", "--output", "--record", "--steps", "--stacks", "--max-events", "--budget", "--baseline", "--fail-above"),
    *("--top", "--width", "--color"),
)
_FAILED = 1
_INTERRUPTED = 130
_SIGNALS = tuple(number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None)


@dataclass(frozen=True)
class Target:
    """A program: the path of a script, the name of a module or a piece of code, and its arguments."""

    kind: Literal["script", "module", "code"]
    what: str
    arguments: tuple[str, ...]

    def short_name(self) -> str:
        """A name for files."""
        return {"script": Path(self.what).stem, "module": self.what, "code": "code"}[self.kind]

    def command(self) -> list[str]:
        """The command line without memprof; code is shortened to its first line."""
        first_line = self.what.strip().partition("\n")[0]
        named = {"script": [self.what], "module": ["-m", self.what], "code": ["-c", first_line]}[self.kind]
        return ["python", *named, *self.arguments]


class _Terminated(BaseException):
    """A signal that would have killed the program."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def split_target(arguments: list[str]) -> tuple[list[str], Target | None]:
    """memprof's own options, and the program that follows them (None if there is none)."""
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word in ("-m", "-c"):
            if at + 1 == len(arguments):
                raise CommandError(f"{word} needs {'a module' if word == '-m' else 'code'}")
            kind: Literal["module", "code"] = "module" if word == "-m" else "code"
            return arguments[:at], Target(kind, arguments[at + 1], tuple(arguments[at + 2 :]))
        if word == "--":
            own, rest = arguments[:at], arguments[at + 1 :]
            if rest[:1] in (["-m"], ["-c"]):
                return own, split_target(rest)[1]
            return own, Target("script", rest[0], tuple(rest[1:])) if rest else None
        if not word.startswith("-"):
            return arguments[:at], Target("script", word, tuple(arguments[at + 1 :]))
        at += 2 if word in _WITH_VALUE else 1
    return arguments, None


def run_target(target: Target, failed: Callable[[BaseException], object] = id) -> int:
    """Run a program and return its exit code; its traceback is printed if it fails.

    Args:
        target: the program.
        failed: called with what ended it, if that is an exception.

    Raises:
        CommandError: if there is no such script.
    """
    if target.kind == "script" and not Path(target.what).exists():
        raise CommandError(f"can't open script {target.what}: no such file")
    before = sys.argv, sys.path[:], sys.modules["__main__"]
    try:
        with _signals_raise():
            _execute(target)
    except SystemExit as stop:
        return _exit_code(stop)
    except _Terminated as end:
        failed(end)
        note(f"memprof: the program was ended by {signal.Signals(end.number).name}")
        return 128 + end.number
    except KeyboardInterrupt as interrupt:
        failed(interrupt)
        _print_traceback(interrupt)
        return _INTERRUPTED
    except BaseException as error:  # noqa: BLE001  # whatever it is, the report must still be written
        failed(error)
        _print_traceback(error)
        return _FAILED
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = before
        sys.stdout.flush()
    return 0


def _execute(target: Target) -> None:
    if target.kind == "script":
        sys.argv = [target.what, *target.arguments]
        _put_first_on_path(str(Path(target.what).resolve().parent))
        _execute_script(Path(target.what))
    elif target.kind == "module":
        sys.argv = [target.what, *target.arguments]
        _put_first_on_path(str(Path.cwd()))
        runpy.run_module(target.what, run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c", *target.arguments]
        _put_first_on_path("")
        _execute_as_main(types.ModuleType("__main__"), compile(target.what, "<string>", "exec"))


def _execute_script(path: Path) -> None:
    if path.is_dir() or zipfile.is_zipfile(path):
        runpy.run_path(str(path), run_name="__main__")
        return
    main = types.ModuleType("__main__")
    main.__file__ = name = str(path.absolute())
    main.__loader__ = loader = SourceFileLoader("__main__", name)
    _execute_as_main(main, loader.source_to_code(loader.get_data(name), name))


def _execute_as_main(main: types.ModuleType, code: types.CodeType) -> None:
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102  # the user's own code, given for this purpose


def _put_first_on_path(folder: str) -> None:
    """In the place of this command's own folder, as python does it."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Let signals that would kill the process unasked end the program by an exception, so that a report is written."""

    def end(number: int, frame: object) -> None:
        raise _Terminated(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            if signal.getsignal(number) is end:
                signal.signal(number, signal.SIG_DFL)


def _exit_code(stop: SystemExit) -> int:
    """What the system would have got: sys.exit's number, 0 for None, and 1 for a message, which is printed."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return stop.code & 0xFF if os.name == "posix" else stop.code
    note(str(stop.code))
    return _FAILED


def _print_traceback(error: BaseException) -> None:
    """As python prints it: from the program's own first line on."""
    trace = error.__traceback__
    while trace is not None and _is_machinery(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    traceback.print_exception(type(error), error, trace)


def _is_machinery(filename: str) -> bool:
    return filename == __file__ or filename == runpy.__file__ or filename.startswith("<frozen ")
