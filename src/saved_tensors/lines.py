"""The line of the user's program that saves a value."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import CodeType
from typing import TypeAlias

# The code and an instruction in it: 1 us to find. The number of the line costs more, and is found for a report only.
Line: TypeAlias = tuple[CodeType, int]

# Where this package lies: also as it was imported, where a link leads there.
PACKAGE = tuple(f"{file.parents[1]}{os.sep}" for file in (Path(__file__), Path(__file__).resolve()))


def user_line() -> Line | None:
    """The innermost frame of this thread that isn't this library's, or None."""
    frame = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back  # type: ignore[assignment]  # None ends the loop
    return None


def text_of(line: Line | None) -> str:
    """``"file.py:12"``, with the last two parts of the path; empty for None."""
    if line is None:
        return ""
    code, instruction = line
    number = code.co_firstlineno
    for start, end, found in code.co_lines():
        if start <= instruction < end and found is not None:
            number = found
            break
    parts = Path(code.co_filename).parts if not code.co_filename.startswith("<") else (code.co_filename,)
    return f"{'/'.join(parts[-2:])}:{number}"
