from __future__ import annotations

import json
import shutil
import time

import pytest

from stowgrad.utils import load_file, load_metadata

STEPS = 60
RUN = ["--steps", STEPS, "--checkpoint-every", 5, "--quiet"]


def figures(path):
    return json.loads(path.read_text(encoding="utf-8"))


def contents(path):
    tensors = {name: tensor.numpy().tobytes() for name, tensor in load_file(path).items()}
    return tensors, json.loads(load_metadata(path)["state"])


def wait_for_change(path, process, before):
    """Until the file is there, and newer than ``before``; returns its time."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.stat().st_mtime_ns > before:
            return path.stat().st_mtime_ns
        time.sleep(0.001)
    pytest.fail(f"no checkpoint was written: {process.communicate()[1]}")


def test_a_killed_run_ends_the_same(program, tiny, tmp_path):
    whole, resumed, checkpoint = tmp_path / "whole.json", tmp_path / "resumed.json", tmp_path / "run.safetensors"
    process = program(*tiny, *RUN, "--checkpoint", checkpoint)
    written = 0
    for _ in range(4):  # at the start, and after 5, 10 and 15 steps
        written = wait_for_change(checkpoint, process, written)
    process.kill()
    process.communicate()
    assert process.returncode == -9

    process = program(*tiny, *RUN, "--resume", checkpoint, "--checkpoint", checkpoint, "--json", resumed)
    assert process.communicate() == ("", "")
    assert process.returncode == 0
    last = tmp_path / "last.safetensors"
    process = program(*tiny, *RUN, "--checkpoint", last, "--json", whole)
    assert process.communicate() == ("", "")
    assert contents(last) == contents(checkpoint)  # parameters, optimizer, learning rate and random state
    for name in ("checksum", "training_loss", "validation_loss", "steps"):
        assert figures(whole)[name] == figures(resumed)[name]
    assert sorted(file.name for file in tmp_path.iterdir() if file.suffix not in (".json", ".txt")) == [
        "last.safetensors",
        "run.safetensors",
    ]


@pytest.fixture
def checkpoint(train_text, tiny, tmp_path):
    path = tmp_path / "run.safetensors"
    assert train_text.main([*tiny, "--steps", "4", "--quiet", "--checkpoint", str(path)]) == 0
    return path


def fails(train_text, capsys, *arguments):
    """Standard error of a run that must end with a usage error."""
    assert train_text.main([str(argument) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("train_text: error: ")
    assert "Traceback" not in captured.err
    return captured.err


def test_a_run_may_go_on_in_another_mode(train_text, tiny, tmp_path):
    half, rest, whole = (tmp_path / name for name in ("half", "rest.json", "whole.json"))
    options = train_text.parse_arguments([*tiny, "--steps", "6", "--checkpoint", str(half)])
    training = train_text.prepare(options)
    for _ in range(3):
        training.train_step()
    training.save(str(half))
    run = [*tiny, "--steps", "6", "--quiet"]
    assert train_text.main([*run, "--resume", str(half), "--mode", "checkpointed", "--json", str(rest)]) == 0
    assert train_text.main([*run, "--json", str(whole)]) == 0
    assert figures(rest)["checksum"] == figures(whole)["checksum"]


def test_a_missing_file(train_text, tiny, tmp_path, capsys):
    assert "No such file" in fails(train_text, capsys, *tiny, "--resume", tmp_path / "none")


def test_no_safetensors_file(train_text, tiny, tmp_path, capsys):
    path = tmp_path / "foreign"
    path.write_bytes(b"something else" * 100)
    assert str(path) in fails(train_text, capsys, *tiny, "--resume", path)


@pytest.mark.parametrize("keep", [0, 5, 1000, -1])
def test_a_truncated_file(train_text, tiny, checkpoint, tmp_path, capsys, keep):
    path = tmp_path / "short"
    path.write_bytes(checkpoint.read_bytes()[:keep])
    assert str(path) in fails(train_text, capsys, *tiny, "--steps", "4", "--resume", path)


def test_a_changed_byte(train_text, tiny, checkpoint, capsys):
    data = bytearray(checkpoint.read_bytes())
    data[-100] ^= 1
    checkpoint.write_bytes(data)
    assert "damaged" in fails(train_text, capsys, *tiny, "--steps", "4", "--resume", checkpoint)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--seed", "1"], "seed 0, not 1"),
        (["--steps", "5"], "steps 4, not 5"),
        (["--width", "64"], "the saved model is not this one"),
        (["--layers", "1"], "not in the model"),
    ],
)
def test_another_run(train_text, tiny, checkpoint, capsys, option, said):
    assert said in fails(train_text, capsys, *tiny, "--steps", "4", *option, "--resume", checkpoint)


def test_another_text(train_text, tiny, checkpoint, tmp_path, capsys):
    text = tmp_path / "text.txt"
    text.write_text(text.read_text(encoding="utf-8").replace("tensor", "tenors"), encoding="utf-8")
    assert "another run, with text" in fails(train_text, capsys, *tiny, "--steps", "4", "--resume", checkpoint)


def test_a_checkpoint_of_before_is_not_overwritten(train_text, tiny, checkpoint, capsys):
    before = checkpoint.read_bytes()
    message = fails(train_text, capsys, *tiny, "--steps", "4", "--checkpoint", checkpoint)
    assert f"--resume {checkpoint}" in message
    assert checkpoint.read_bytes() == before


def test_a_finished_run_has_nothing_left_to_do(train_text, tiny, checkpoint, tmp_path):
    copy = shutil.copy(checkpoint, tmp_path / "copy")
    out = tmp_path / "out.json"
    assert train_text.main([*tiny, "--steps", "4", "--quiet", "--resume", str(copy), "--json", str(out)]) == 0
    assert figures(out)["seconds_per_step"] is None
    assert figures(out)["steps"] == 4
