"""Where in the user's program something happens."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType
from typing import NamedTuple

# Also as it was imported, where a link leads there.
_PACKAGE = tuple(f"{file.parents[1]}{os.sep}" for file in (Path(__file__), Path(__file__).resolve()))


class Site(NamedTuple):
    """A place in a program: cheap to take, and turned into text only for an error."""

    code: CodeType | None
    instruction: int

    def __str__(self) -> str:
        if self.code is None:
            return "an unknown place"
        line = next((end for _, _, end in [*self._lines()][-1:]), self.code.co_firstlineno)
        return f"{self.code.co_filename}:{line} in {self.code.co_name}"

    def _lines(self) -> list[tuple[int, int, int]]:
        assert self.code is not None
        lines = [part for part in self.code.co_lines() if part[2] is not None]
        return [(a, b, line or 0) for a, b, line in lines if a <= self.instruction]


def user_site() -> Site:
    """The line outside of this package that led here."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_PACKAGE):
        if frame.f_back is None:
            return Site(None, 0)
        frame = frame.f_back
    return Site(frame.f_code, frame.f_lasti)
