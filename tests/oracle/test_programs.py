"""Random programs of operations, views, writes and passes: the same values, derivatives and errors as in PyTorch."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import programs

STEPS = 9
shrinkable = st.randoms(use_true_random=False, note_method_calls=False)
patient = {"suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}


@settings(max_examples=200, **patient)
@given(draw=shrinkable)
def test_a_random_program(draw: Random) -> None:
    programs.run(draw, programs.ALL, STEPS)


@pytest.mark.slow
@settings(max_examples=2000, **patient)
@given(draw=shrinkable)
def test_many_random_programs(draw: Random) -> None:
    programs.run(draw, programs.ALL, STEPS)


def test_programs_get_to_their_ends() -> None:
    """Most programs run to the end or to an error that PyTorch raises too: little is gone around."""
    ends = [programs.run(Random(seed), programs.ALL, STEPS, f"seed {seed}") for seed in range(100)]
    compared = ends.count("compared")
    assert compared >= 40
    assert ends.count("modified by an inplace operation") >= 10
    assert ends.count("second time") >= 5
