"""Random programs of in-place operations on tensors and views: the same in PyTorch, errors included."""

from __future__ import annotations

import random

import pytest

from . import programs


@pytest.mark.parametrize("seed", range(200))
def test_a_random_program(seed: int) -> None:
    programs.run(random.Random(seed), programs.WRITES, 7, f"seed {seed}")
