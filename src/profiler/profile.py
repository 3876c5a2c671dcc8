"""`memory_profile`: the context manager that records a block of code."""

from __future__ import annotations

import html
import os
import sys
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from ..memory import events
from .build import build_report, live_since
from .json_format import dump
from .log import DEFAULT_MOST
from .model import PHASES, LiveBlock, MemoryReport
from .recorder import Progress, Record, Recorder
from .text import render
from .window import StepWindow


class memory_profile:  # noqa: N801  # a context manager, named like PyTorch's `record_function` and `profile`
    """Record memory while a block of code runs.

    Args:
        record: "ledger" (the default); "peaks", which costs least and leaves out who saved what for backward, the
            variables that hold what, and hints; or "all", which keeps the events of all steps for the timeline, and
            stacks.
        max_events: how many events are kept in memory; figures stay exact beyond that, hints and timeline don't.
        stacks: how many of your frames are kept of each allocation, with "all".
        steps: the first step to record and the one after the last (None: to the end), counted from 0; by default, all.

    Raises:
        ValueError: for another mode.
        RuntimeError: when it is entered a second time.

    Profiles may nest and overlap; each has its own figures. An exception passes through, and the report is there.

    >>> import stowgrad
    >>> with memory_profile() as prof:
    ...     x = stowgrad.zeros(256)
    >>> prof.report().peak_bytes() >= 1024
    True
    """

    def __init__(
        self,
        record: Record = "ledger",
        *,
        max_events: int = DEFAULT_MOST,
        stacks: int = 8,
        steps: tuple[int, int | None] | None = None,
    ) -> None:
        self._recorder = Recorder(record, max_events=max_events, stacks=stacks)
        self._window = None if steps is None else StepWindow(*steps, self._recorder.start, self._recorder.stop)
        self._started = datetime.now(UTC)
        self._is_used = False

    def start(self) -> memory_profile:
        """Begin to record; `stop` ends it. What ``with`` does."""
        if self._is_used:
            raise RuntimeError("memory_profile: this profile was recorded already; make a new one for each recording")
        self._is_used = True
        self._started = datetime.now(UTC)
        if self._window is None:
            self._recorder.start()
        else:
            self._window.start()
        return self

    def stop(self) -> None:
        """Stop recording; stopping twice has no effect."""
        if self._window is not None:
            self._window.stop()
        self._recorder.stop()

    def __enter__(self) -> memory_profile:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def report(self, command: list[str] | None = None, exit_code: int | None = None) -> MemoryReport:
        """The figures up to now, or of the whole recording after its end.

        Args:
            command: the command line that was recorded; this process's by default.
            exit_code: what it ended with, where it has ended.
        """
        if command is None:
            command = [os.path.basename(part) if number == 0 else part for number, part in enumerate(sys.argv)]
        return build_report(self._recorder, command, self._started, exit_code)

    def failed(self, error: BaseException) -> None:
        """Name what the variables on an exception's way hold, while they do: whoever catches it outside calls this."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        if trace is not None:
            self._recorder.look_around(trace.tb_frame)

    def live(self) -> tuple[LiveBlock, ...]:
        """What was allocated since the recording began and is live now, the largest first, and who holds it."""
        return live_since(self._recorder)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the report as JSON, replacing what is there; ``memprof report`` reads it."""
        Path(path).write_text(dump(self.report()), encoding="utf-8")

    def progress(self) -> Progress:
        """Where the recording is at this moment: cheap enough to be asked for while it goes on."""
        return self._recorder.progress()

    def __str__(self) -> str:
        return render(self.report())

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"


def phase(
    name: Literal["setup", "forward", "backward", "optimizer", "recompute", "eval", "other"],
) -> AbstractContextManager[None]:
    """Mark a block of code as a phase, for those who watch; the innermost marked phase counts.

    Raises:
        ValueError: for a name that is no phase.
    """
    if name not in PHASES:
        raise ValueError(f"unknown phase {name!r}; expected one of {', '.join(PHASES)}")
    return events.span("phase", name)


def step() -> AbstractContextManager[None]:
    """Mark a block of code as one training step, where the end of the optimizer's step is not what ends it.

    >>> with step():
    ...     pass
    """
    return events.span("step", "step")
