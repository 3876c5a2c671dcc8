"""The residual network on digits: that it learns them, and that a killed run ends as if it had not been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .conftest import EXAMPLES, ROOT
from .killed_digits import drawn

SMALL = ["--width", "4", "--batch", "16", "--epochs", "3", "--quiet"]


@pytest.fixture
def train_digits(examples: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    module = examples("train_digits")
    monkeypatch.setattr(module, "load_digits", drawn)
    return module


def last_line(text: str) -> tuple[float, str]:
    """The accuracy and the checksum that a run ends with."""
    words = text.strip().splitlines()[-1].split()
    return float(words[0]), words[-1]


def test_over_98_percent_of_unseen_digits(examples: Any, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    assert examples("train_digits").main(["--quiet"]) == 0
    assert last_line(capsys.readouterr().out)[0] > 98


def test_stripes_are_learned(train_digits: Any, capsys: pytest.CaptureFixture[str]):
    assert train_digits.main([*SMALL, "--epochs", "12", "--learning-rate", "0.03"]) == 0
    assert last_line(capsys.readouterr().out)[0] > 90


def test_images_are_moved_by_up_to_a_pixel(examples: Any):
    import stowgrad

    images = stowgrad.zeros(300, 1, 5, 4)
    images[:, 0, 2, 1] = 1
    stowgrad.manual_seed(0)
    moved, classes = examples("residual_network").moved([(image, 3) for image in images])
    assert moved.shape == (300, 1, 5, 4)
    assert classes.tolist() == [3] * 300
    places = {tuple(place) for place in np.argwhere(moved[:, 0].numpy())[:, 1:].tolist()}
    assert places == {(row, column) for row in (1, 2, 3) for column in (0, 1, 2)}
    assert (moved.numpy().reshape(300, -1).sum(1) == 1).all()


def test_without_scikit_learn_it_says_what_to_install(examples: Any, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert examples("train_digits").main([]) == 2
    assert "pip install scikit-learn" in capsys.readouterr().err


def test_a_checkpoint_of_another_run_is_refused(train_digits: Any, tmp_path: Path, capsys):
    path = str(tmp_path / "run")
    assert train_digits.main([*SMALL, "--epochs", "1", "--checkpoint", path]) == 0
    assert train_digits.main([*SMALL, "--epochs", "2", "--checkpoint", path]) == 2
    assert "a checkpoint of another run" in capsys.readouterr().err
    assert train_digits.main([*SMALL, "--width", "8", "--epochs", "1", "--checkpoint", path]) == 2
    assert "the saved model is not this one" in capsys.readouterr().err


KILLS = [("step", 4), ("update", 6), ("write", 100), ("flush", 3), ("replace", 1), ("replaced", 2)]


def run(what: str, count: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    program = [sys.executable, str(Path(__file__).with_name("killed_digits.py")), what, str(count), str(EXAMPLES)]
    command = [*program, *SMALL, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_a_run_that_is_killed_everywhere_ends_the_same(tmp_path: Path):
    path = tmp_path / "run.safetensors"
    checkpoints = ["--checkpoint", str(path), "--checkpoint-every", "2"]
    for what, count in KILLS:
        killed = run(what, count, *checkpoints)
        assert killed.returncode == -signal.SIGKILL, f"{what}: {killed.stderr}"
    resumed = run("nowhere", 0, *checkpoints)
    assert resumed.stderr == ""
    assert os.listdir(tmp_path) == [path.name]  # nor is a half-written file left
    whole = run("nowhere", 0)
    assert last_line(resumed.stdout) == last_line(whole.stdout)
