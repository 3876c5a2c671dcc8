"""``memprof run --watch``: one line on the terminal that says where the memory is, while the program runs."""

from __future__ import annotations

import os
import sys
import threading
from typing import TextIO

from ..memory import format_size
from ..profiler import memory_profile
from .budgets import Budget

_EVERY_SECONDS = 0.25
_SHORT = {"forward": "fwd", "backward": "bwd", "optimizer": "opt", "recompute": "rec"}
_CELLS = 10
_CLEAR = "\r\x1b[K"


def can_watch(stream: TextIO) -> bool:
    """Whether a line that is written again and again can be seen there."""
    return stream.isatty() and os.environ.get("TERM", "") != "dumb" and not os.environ.get("CI")


def line(profile: memory_profile, budgets: list[Budget]) -> str:
    """Step, peaks of the phases so far, what is live now, and how far the budget is used."""
    now = profile.progress()
    phases = "  ".join(f"{_SHORT[name]} {format_size(peak)}" for name, peak in now.phases.items() if name in _SHORT)
    parts = [f"step {now.step}", phases, f"now {format_size(now.live_bytes)}", f"peak {format_size(now.peak_bytes)}"]
    budget = next((one.nbytes for one in budgets if one.phase is None), None)
    if budget:
        filled = min(_CELLS * now.peak_bytes // budget, _CELLS)
        bar = "#" * filled + "." * (_CELLS - filled)
        parts.append(f"budget {format_size(budget)} [{bar}] {now.peak_bytes / budget:.0%}")
    return " | ".join(part for part in parts if part)


def _width(stream: TextIO) -> int:
    """The columns of a terminal; some do not know theirs and say 0."""
    return (os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0) or 80


class Watch:
    """Writes the line four times a second while it is entered.

    Args:
        profile: the recording.
        budgets: what to measure it by.
        stream: where to; stderr by default.
    """

    def __init__(self, profile: memory_profile, budgets: list[Budget], stream: TextIO | None = None) -> None:
        self._profile, self._budgets = profile, budgets
        self._stream = sys.stderr if stream is None else stream
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="memprof-watch", daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end.set()
        self._thread.join()
        self._stream.write(_CLEAR)
        self._stream.flush()

    def _loop(self) -> None:
        while not self._end.wait(_EVERY_SECONDS):
            self._stream.write(_CLEAR + line(self._profile, self._budgets)[: _width(self._stream) - 1])
            self._stream.flush()
