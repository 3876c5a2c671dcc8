"""Fixtures of the kernel tests: every kernel is tried on several thread counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import get_num_threads, set_num_threads


@pytest.fixture(autouse=True)
def thread_count_restored() -> Iterator[None]:
    before = get_num_threads()
    yield
    set_num_threads(before)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture
def same_on_threads() -> Callable[[Callable[[], Any]], Any]:
    """Run a function that returns its outs on 1, 2 and 3 threads, and see that they are equal to the bit."""

    def run(function: Callable[[], Any]) -> Any:
        results = []
        for count in (1, 2, 3):
            set_num_threads(count)
            outs = function()
            results.append(outs if isinstance(outs, (list, tuple)) else [outs])
        for other in results[1:]:
            for first, second in zip(results[0], other, strict=True):
                assert first.tobytes() == second.tobytes()
        return outs

    return run
