"""Small files, small functions: each has one subject, and fits on a screen or two."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "tools", "examples", "benchmarks", "tests")
FILE_LINES = 500
FUNCTION_LINES = 60  # from `def` to the last line, the docstring not counted


def docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node, clean=False) is None:
        return 0
    first = node.body[0]
    return (first.end_lineno or first.lineno) - first.lineno + 1


def long_functions(text: str, limit: int) -> list[tuple[str, int]]:
    """Name and length of each function in ``text`` with more lines than ``limit``."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - docstring_lines(node)
            if lines > limit:
                found.append((node.name, lines))
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_are_short(folder: str):
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in (ROOT / folder).rglob("*.py")}
    assert {str(f.relative_to(ROOT)): n for f, n in lengths.items() if n > FILE_LINES} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_short(folder: str):
    found = {}
    for file in (ROOT / folder).rglob("*.py"):
        for name, lines in long_functions(file.read_text(encoding="utf-8"), FUNCTION_LINES):
            found[f"{file.relative_to(ROOT)}: {name}"] = lines
    assert found == {}


def test_a_docstring_does_not_count():
    text = 'def f(a,\n      b):\n    """One.\n\n    Two.\n    """\n    x = a\n    return x\n'
    assert long_functions(text, 3) == [("f", 4)]
    assert long_functions(text, 4) == []
