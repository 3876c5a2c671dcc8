"""Training scripts written for PyTorch run with ``import stowgrad as torch``: the same losses."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

import stowgrad

SCRIPTS = sorted(file.stem for file in (Path(__file__).parent / "scripts").glob("*.py") if file.stem != "data")


def test_there_are_ten() -> None:
    assert len(SCRIPTS) == 10


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_losses_are_those_of_pytorch(name: str) -> None:
    script = importlib.import_module(f".scripts.{name}", __package__)
    expected = script.run(torch)
    found = script.run(stowgrad)
    assert len(found) == len(expected) == 20
    assert found == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert expected[-1] < expected[0] or name in ("char_rnn", "meta_learning")
