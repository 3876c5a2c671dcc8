"""Each package says what it offers: a sorted ``__all__`` whose every name is there."""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGES = sorted(
    ".".join(("stowgrad", *file.parent.relative_to(SOURCE).parts)) for file in SOURCE.rglob("__init__.py")
)
if importlib.util.find_spec("cupy") is None:  # its kernels can't be imported then
    PACKAGES.remove("stowgrad.kernels.cupy_")


def sort_key(name: str) -> tuple[int, list[tuple[int, int | str]]]:
    """Constants, then classes, then the rest, numbers by value: the order that ruff (RUF022) writes."""
    plain = name.lstrip("_")
    if name.isupper() and len(name) > 1:
        kind = 0
    elif plain[:1].isupper():
        kind = 1
    else:
        kind = 2
    parts = [(0, int(part)) if part.isdigit() else (1, part) for part in re.findall(r"\d+|\D+", name)]
    return kind, parts


@pytest.mark.parametrize("package", PACKAGES)
def test_all_is_there_and_sorted(package: str):
    names = list(importlib.import_module(package).__all__)
    # Written by hand, in the order of ruff; gathered from modules, in Python's.
    assert names in (sorted(set(names), key=sort_key), sorted(set(names))), "`make fix` sorts it"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_exported_name_resolves(package: str):
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
