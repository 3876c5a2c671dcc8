from __future__ import annotations

import gc

import pytest

from stowgrad.memory import memory_allocated

EXACT = ["disk", "checkpointed", "combined"]
MODES = ["plain", "disk", "bfloat16", "checkpointed", "combined"]


@pytest.fixture
def training(train_text, tiny, tmp_path):
    """Makes a run that is ready for its first step."""

    def make(mode, *more):
        options = train_text.parse_arguments(["--mode", mode, "--directory", str(tmp_path), *tiny, *more])
        return train_text.prepare(options)

    return make


def outcome(training):
    losses = list(training.steps())
    return losses, training.validate(), training.checksum()


@pytest.mark.parametrize("mode", EXACT)
def test_an_exact_mode_trains_the_same_model(training, mode):
    more = ["--steps", "4", "--batch", "8"]  # block inputs of 64 KiB: large enough to go to disk
    plain = training("plain", *more)
    expected = outcome(plain)
    other = training(mode, *more)
    assert outcome(other) == expected
    assert other.figures()["saved_resident_bytes"] < plain.figures()["saved_resident_bytes"]


def test_bfloat16_trains_nearly_the_same_model(training):
    losses, _, checksum = outcome(training("plain", "--steps", "4"))
    close, _, other_checksum = outcome(training("bfloat16", "--steps", "4"))
    assert losses[0] == close[0]
    assert losses == pytest.approx(close, rel=1e-2)
    assert checksum != other_checksum


def test_the_model_learns(training):
    run = training("plain", "--steps", "40", "--learning-rate", "0.01")
    before = run.validate()
    list(run.steps())
    assert run.validate() < before - 1


@pytest.mark.parametrize("steps", [5, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", MODES)
def test_memory_is_the_same_after_every_step(training, mode, steps):
    run = training(mode, "--steps", str(steps + 1))
    gc.collect()
    gc.disable()
    try:
        run.train_step()  # makes the optimizer's state
        held = memory_allocated()
        for _ in range(steps):
            run.train_step()
            assert memory_allocated() == held
    finally:
        gc.enable()


def test_figures_are_those_of_one_step(training):
    run = training("plain", "--steps", "6")
    list(run.steps())
    figures = run.figures()
    assert figures["backward_peak_bytes"] >= figures["forward_peak_bytes"] > figures["saved_resident_bytes"] > 0
    assert len(run.seconds) == 5


def test_a_sample_leaves_random_state_and_mode_alone(training):
    run = training("plain", "--steps", "2")
    run.train_step()
    text = run.sample(10)
    assert run.sample(10) == text
    assert run.model.training
    loss = run.train_step()
    alike = training("plain", "--steps", "2")
    alike.train_step()
    assert alike.train_step() == loss
