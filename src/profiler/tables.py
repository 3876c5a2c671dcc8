"""Plain text in columns: ASCII only, as wide as asked for."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

_LEAST_CELL = 8
_INDENT = "      "
_GLUE = "\0"
_SIZE = r"[\d.,]+ ?[KMG]?i?B"
# What is not broken: a change of a size and where, a size, what is in parentheses.
_WHOLE = re.compile(rf"{_SIZE} -> {_SIZE}(?: \([^()]*\))?|{_SIZE}\b|\([^()]{{,24}}\)")


def flow(lines: Iterable[str], width: int) -> list[str]:
    """Lines of words, broken where they are too long: between parts (three spaces) rather than inside one."""
    broken: list[str] = []
    for line in lines:
        parts = [_glued(part, width - len(_INDENT)) for part in re.split(r"(?<=\S) {3}(?=\S)", line)]
        broken += textwrap.wrap(
            "   ".join(parts), width, subsequent_indent=_INDENT, break_long_words=False, break_on_hyphens=False
        ) or [""]
    return [line.replace(_GLUE, " ") for line in broken]


def _glued(part: str, width: int) -> str:
    """A part that fits into a line stays whole; of a longer one, sizes with their units and what is in parentheses."""
    indent = len(part) - len(part.lstrip())
    if len(part) - indent <= width:
        return part[:indent] + part[indent:].replace(" ", _GLUE)
    return _WHOLE.sub(lambda found: found[0].replace(" ", _GLUE), part)


def clip(line: str, width: int) -> str:
    """A line in ASCII, cut where it is too long."""
    line = line.encode("ascii", "backslashreplace").decode()
    return line if len(line) <= width else f"{line[: width - 2]}.."


def shorten(text: str, width: int) -> str:
    """A text without its middle, if it is too long: both ends of an op and its slot or of a path tell something."""
    if len(text) <= width:
        return text
    tail = (width - 2) // 3
    return f"{text[: width - 2 - tail]}..{text[-tail:]}"


def starred(name: str) -> str:
    """A dotted name without its numbers: ``blocks.0.attn`` and ``blocks.1.attn`` are both ``blocks.*.attn``."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", name)


def aligned(rows: Sequence[Sequence[str]], width: int, right: Iterable[int], elastic: Sequence[int]) -> list[str]:
    """Rows as lines with aligned columns.

    Args:
        rows: cells; the first row is the header.
        width: the most columns of a line, as far as the elastic columns allow it.
        right: the columns that are aligned to the right.
        elastic: the columns whose text may be cut, the widest first.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + 2 * (len(widths) - 1) - width
    while excess > 0:
        widest = max(elastic, key=lambda number: widths[number])
        if widths[widest] <= _LEAST_CELL:
            break
        widths[widest] -= 1
        excess -= 1
    aligned = set(right)
    return [
        "  ".join(
            cell.rjust(wide) if number in aligned else shorten(cell, wide).ljust(wide)
            for number, (cell, wide) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
