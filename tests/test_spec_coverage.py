"""Every statement of the engine's specification is carried by a test; and the program that says so can count."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "spec_coverage.py"
_spec = importlib.util.spec_from_file_location("spec_coverage", TOOL)
assert _spec is not None
assert _spec.loader is not None
spec_coverage = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(spec_coverage)


def test_no_statement_is_without_a_test(capsys: pytest.CaptureFixture[str]):
    assert spec_coverage.main() == 0, capsys.readouterr().out


def test_what_does_not_apply_is_said_with_its_reason(capsys: pytest.CaptureFixture[str]):
    spec_coverage.main()
    printed = capsys.readouterr().out
    assert [number for number, why in spec_coverage.NOT_YET.items() if f"  {number}  {why}\n" not in printed] == []


def test_a_statement_without_a_test_is_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(spec_coverage.STATEMENTS, 8, 6)
    assert spec_coverage.main() == 1
    assert "\n  8.6\n" in capsys.readouterr().out


def test_a_statement_that_is_tested_applies(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(spec_coverage.NOT_YET, "1.1", "it is tested all the same")
    assert spec_coverage.main() == 1


@pytest.mark.parametrize(
    ("comment", "numbers"),
    [
        ("# spec 1.1", {"1.1"}),
        ("# case G5, spec 7.21, P9", {"7.21", "G5", "P9"}),
        ("# P11, cases E1, E2; PyTorch 2.13: only arguments are", {"P11", "E1", "E2"}),
        ("# spec P12, 9.8", {"P12", "9.8"}),
        ("# spec 2.1, 2.2", {"2.1", "2.2"}),
        ("# spec 2.1 2.2", {"2.1", "2.2"}),
        ("# spec 2.1 to 2.16", set()),
        ("# spec 1.1-1.6", set()),
        ("# P16 over 2.3", {"P16"}),
        ("# a case that is E4", set()),
        ("# the specification 1.1", set()),
    ],
)
def test_what_a_comment_names(comment: str, numbers: set[str]):
    assert spec_coverage.named(comment) == numbers


def test_only_comments_in_tests_count():
    text = (
        '"""About # spec 1.1."""\n# spec 1.2\ndef helper():  # spec 1.3\n    pass\n\n'
        "@decorated  # spec 1.4\ndef test_it(  # spec 1.5\n):\n    x = '# spec 1.6'  # spec 1.7\n"
    )
    assert spec_coverage.carried(text) == {"1.4", "1.5", "1.7"}
