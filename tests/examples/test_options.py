from __future__ import annotations

import json

import pytest

from stowgrad.memory import get_limit, set_limit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--mode", "magic"], "invalid choice: 'magic'"),
        (["--steps", "0"], "at least 1, got '0'"),
        (["--batch", "many"], "at least 1, got 'many'"),
        (["--dropout", "1"], "below 1, got '1'"),
        (["--learning-rate", "fast"], "expected a number, got 'fast'"),
        (["--device", "abacus"], "abacus"),
        (["--device", "meta"], "a device that computes"),
        (["--seed", "-1"], "at least 0, got '-1'"),
    ],
)
def test_a_wrong_option(train_text, capsys, arguments, said):
    with pytest.raises(SystemExit, match="2"):
        train_text.main(arguments)
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--checkpoint", "--json"])
def test_a_file_that_can_not_be_written_is_an_error_before_training(train_text, tiny, tmp_path, capsys, option):
    path = tmp_path / "missing" / "file"
    assert train_text.main([*tiny, option, str(path)]) == 2
    assert str(path.parent) in capsys.readouterr().err


@pytest.mark.parametrize("mode", ["disk", "combined"])
@pytest.mark.parametrize("name", ["missing", "text.txt"])
def test_a_directory_that_is_none(train_text, tiny, tmp_path, capsys, mode, name):
    directory = tmp_path / name
    assert train_text.main([*tiny, "--mode", mode, "--directory", str(directory)]) == 2
    assert str(directory) in capsys.readouterr().err


def test_a_width_that_heads_can_not_share(train_text, tiny, capsys):
    assert train_text.main([*tiny, "--heads", "5"]) == 2
    assert "5 heads" in capsys.readouterr().err


def test_a_text_that_is_too_short(train_text, tiny, tmp_path, capsys):
    (tmp_path / "text.txt").write_text("Too short.", encoding="utf-8")
    assert train_text.main(tiny) == 2
    assert "too short" in capsys.readouterr().err


def test_a_text_that_is_none(train_text, tiny, tmp_path, capsys):
    path = tmp_path / "text.txt"
    path.write_bytes(b"\xff\xfe\x00")
    assert train_text.main(tiny) == 2
    assert f"{path} is no text in UTF-8" in capsys.readouterr().err


def test_a_memory_limit_that_is_too_small(train_text, tiny, capsys):
    limit = get_limit()
    try:
        set_limit("300 KiB")
        assert train_text.main([*tiny, "--quiet"]) == 1
    finally:
        set_limit(limit)
    assert "after step 0: the memory limit of cpu does not hold this step" in capsys.readouterr().err


def test_a_disk_that_gets_full_on_the_way(train_text, tiny, tmp_path, capsys, monkeypatch):
    def full(self):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(train_text.Training, "train_step", full)
    checkpoint = str(tmp_path / "run")
    assert train_text.main([*tiny, "--quiet", "--checkpoint", checkpoint]) == 1
    message = capsys.readouterr().err
    assert "after step 0: [Errno 28] No space left" in message
    assert f"--resume {checkpoint}" in message


def test_what_a_run_says(train_text, tiny, tmp_path, capsys):
    out = tmp_path / "figures.json"
    assert train_text.main([*tiny, "--steps", "4", "--sample", "5", "--threads", "2", "--json", str(out)]) == 0
    captured = capsys.readouterr()
    assert "plain: step 4/4  loss" in captured.err
    assert "A text by the model" in captured.out
    figures = json.loads(out.read_text(encoding="utf-8"))
    assert f"{figures['validation_loss']:.6f}" in captured.out


def test_quiet_says_nothing(train_text, tiny, capsys):
    assert train_text.main([*tiny, "--steps", "1", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
