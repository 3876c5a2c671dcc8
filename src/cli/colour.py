"""Colour on terminals: what a reader looks for first, and nothing else."""

from __future__ import annotations

import os
import re
from typing import TextIO

CHOICES = ("auto", "always", "never")
_BOLD, _RED, _GREEN, _RESET = "\x1b[1m", "\x1b[1;31m", "\x1b[32m", "\x1b[0m"


def has_colour(choice: str, stream: TextIO) -> bool:
    """Whether to write colour there: as ``--color`` says, or else as Python itself decides for its tracebacks."""
    if choice != "auto":
        return choice == "always"
    environment = os.environ
    if environment.get("PYTHON_COLORS") in ("0", "1"):
        return environment["PYTHON_COLORS"] == "1"
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR"):
        return True
    return environment.get("TERM") != "dumb" and stream.isatty()


def painted(text: str) -> str:
    """A report with its peak in bold, the row of the peak in red, and the figures of hints in green."""
    return "\n".join(_painted_line(line) for line in text.split("\n"))


def alarm(text: str) -> str:
    """A line about a failed check, in red."""
    return f"{_RED}{text}{_RESET}"


def _painted_line(line: str) -> str:
    if line.endswith("<- PEAK"):
        return alarm(line)
    if line.startswith("PEAK  "):
        return f"{_BOLD}{line}{_RESET}"
    return re.sub(r"(?<=-> )[\d.,]+ [KMG]?i?B(?= \()", rf"{_GREEN}\g<0>{_RESET}", line)
