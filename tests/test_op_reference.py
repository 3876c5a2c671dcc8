"""The page about the operations is what the program that writes it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from stowgrad.autograd.record import Slot

from .autograd.ops.cases import FUSED, all_records

TOOL = Path(__file__).resolve().parents[1] / "tools" / "op_reference.py"
_spec = importlib.util.spec_from_file_location("op_reference", TOOL)
assert _spec is not None
assert _spec.loader is not None
op_reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(op_reference)


def test_the_page_is_up_to_date():
    assert op_reference.main(["--check"]) == 0, "run python tools/op_reference.py"


def test_every_op_has_a_row():
    text = op_reference.PAGE.read_text(encoding="utf-8")
    assert [name for name in all_records() if name not in FUSED and f"| `{name}` |" not in text] == []


def test_slots_in_words():
    slots = (Slot("self", 0, needed_for=(1,)), Slot("result", 0, True))
    assert op_reference.kept(slots, ["x", "y"], 2) == "self (for y), result"
    assert op_reference.kept((), ["x"], 1) == "nothing"


def test_the_source_is_what_the_docstring_says():
    class Record:
        """One thing.

        Source: Somebody and Somebody Else,
        Some Title, 2020.
        """

    assert op_reference.source(Record) == "Somebody and Somebody Else, Some Title, 2020"
    assert op_reference.summary(Record) == "One thing"
