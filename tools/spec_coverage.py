"""Lists the numbered statements of the engine's specification that no test carries.

A test carries a statement if a comment in it says so: ``# spec 1.11``, or ``# case A1, spec 3.3, 7.21``; where stowgrad
departs from PyTorch ``P11``, and for faults that people ran into ``case E4``. A range (``spec 2.1 to 2.16``) names no
statement: a test that is about all of them shows none of them to be covered.

Usage: ``python tools/spec_coverage.py``. Exit code 1 if a statement that applies has no test.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"

# How many statements each group has: construction of graphs, writes and views, saved variables, saved-tensor hooks,
# save_on_cpu, Function, the engine, grad modes, checkpoint.
STATEMENTS = {1: 25, 2: 18, 3: 19, 4: 29, 5: 8, 6: 24, 7: 36, 8: 5, 9: 33}

# Departures from PyTorch, and cases: of hooks and policies, then of checkpointing.
DEPARTURES = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P11", "P12", "P13", "P14", "P15")
CASES = (
    "A1", "A2", "A3", "A4", "A5", "A7", "A8", "A9", "A10", "A12", "A14", "A15", "A16", "A19", "A20", "A21", "A23",
    "B1", "B3", "B4", "B5", "B6", "B8", "B9", "B10", "B11", "B12", "B13", "B14", "B15", "B16",
    "C1", "C3", "C4", "C6", "C8", "D1", "D3", "D4",
    "E1", "E2", "E4", "E5", "E7", "E8", "E9", "E11", "E12", "E13", "E14", "E15", "E18",
    "F2", "F3", "F5", "F6", "F7", "F10", "F11", "F12", "F14", "F15", "F18",
)  # fmt: skip

# Statements that don't apply, and why.
NOT_YET = {
    "6.20": "vmap rules: Function has no batching yet",
    "6.21": "jvp: forward-mode differentiation is not there yet",
    "8.5": "forward-mode differentiation is not there yet",
}

_NUMBER = r"\d+\.\d+"
_NAMED = re.compile(rf"\bspec ((?:{_NUMBER}|P\d+)(?:,? (?:{_NUMBER}|P\d+))*)")
_DEPARTURE = re.compile(r"\bP\d+\b")
_CASES = re.compile(r"\bcases? ([A-I]\d+(?:,? [A-I]\d+)*)")
_RANGE = re.compile(rf"{_NUMBER}(?:-| to | - ){_NUMBER}")


def named(comment: str) -> set[str]:
    """The statements that a comment names, ranges left out: ``{"3.3", "7.21", "P9", "A1"}``."""
    text = _RANGE.sub("", comment)
    numbers = {number for found in _NAMED.finditer(text) for number in re.findall(_NUMBER, found[1])}
    cases = {case for found in _CASES.finditer(text) for case in re.findall(r"[A-I]\d+", found[1])}
    return numbers | cases | set(_DEPARTURE.findall(text))


def carried(text: str) -> set[str]:
    """The statements that comments in the tests of a file name; ``text`` is Python."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            inside.update(range(first, (node.end_lineno or node.lineno) + 1))
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        number
        for token in tokens
        if token.type == tokenize.COMMENT and token.start[0] in inside
        for number in named(token.string)
    }


def statements() -> Iterator[str]:
    """Every statement of the groups, in order, then the departures and the cases."""
    for group, count in STATEMENTS.items():
        for number in range(1, count + 1):
            yield f"{group}.{number}"
    yield from DEPARTURES
    yield from CASES


def covered(folder: Path = TESTS) -> set[str]:
    """The statements that the tests under ``folder`` carry."""
    return {number for file in folder.rglob("test_*.py") for number in carried(file.read_text(encoding="utf-8"))}


def main() -> int:
    """Print what is missing and what doesn't apply; 0 if nothing is missing."""
    found = covered()
    missing = [number for number in statements() if number not in found and number not in NOT_YET]
    print(f"{len(list(statements())) - len(NOT_YET)} statements apply, {len(missing)} of them without a test")
    for number in missing:
        print(f"  {number}")
    print(f"{len(NOT_YET)} do not apply yet:")
    for number, reason in NOT_YET.items():
        print(f"  {number}  {reason}")
    tested = sorted(NOT_YET.keys() & found)
    if tested:
        print(f"said not to apply, and yet tested: {', '.join(tested)}")
    return 1 if missing or tested else 0


if __name__ == "__main__":
    sys.exit(main())
