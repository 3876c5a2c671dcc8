from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def compare(examples: Any) -> Any:
    return examples("compare_optimizers")


def test_the_table(compare: Any, tiny: list[str], capsys: pytest.CaptureFixture[str]):
    run = [*tiny[:2], "--steps", "3", "--seeds", "2", "--width", "32", "--quiet"]
    assert compare.main(run) == 0
    head, *rows, last = capsys.readouterr().out.splitlines()
    assert head.split()[-1] == "rest"
    assert [row.split("  ")[0] for row in rows] == list(compare.METHODS)
    losses = {row.split("  ")[0]: row.split("MiB")[0].split()[-4:-1] for row in rows}
    assert losses["AdamW"] == losses["AdamW in backward"]
    assert "bit for bit" in last


def test_another_model_is_an_error(compare: Any, tiny: list[str], monkeypatch: Any, capsys: Any):
    count = iter(range(100))
    monkeypatch.setattr(compare, "train", lambda *given: compare.Outcome(1.0, next(count), 4, {"parameter": 3}))
    assert compare.main([*tiny[:2], "--seeds", "1"]) == 1
    assert "plain updates: AdamW in backward, AdamW8bit in backward" in capsys.readouterr().err
