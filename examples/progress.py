"""How far a run is: a bar on a terminal, a plain line now and then anywhere else. Both go to standard error."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

_LINES = 10


class Progress:
    """Shows steps; used as a context manager.

    Args:
        label: stands in front.
        total: how many steps there are.
        quiet: whether to show nothing at all.

    The bar needs rich; without it a terminal gets the lines too.
    """

    def __init__(self, label: str, total: int, quiet: bool = False) -> None:
        self._label = label
        self._total = total
        self._every = 0 if quiet else max(1, total // _LINES)
        self._bar: Any = None if quiet or not sys.stderr.isatty() else _rich_bar()
        self._task: Any = None

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._label, total=self._total, text="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, done: int, text: str) -> None:
        """Say that ``done`` steps are done, and something about them."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done, text=text)
        elif self._every and (done % self._every == 0 or done == self._total):
            print(f"{self._label}: step {done}/{self._total}  {text}", file=sys.stderr, flush=True)


def _rich_bar() -> Any:
    """A progress bar on standard error, or None without rich."""
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    return progress.Progress(
        progress.TextColumn("{task.description:>12}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[text]}"),
        console=Console(stderr=True),
    )
