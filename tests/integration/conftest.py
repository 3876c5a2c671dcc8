"""What the tests of whole training steps share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import stowgrad


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small models gain nothing from threads, and on a busy machine lose much."""
    before = stowgrad.get_num_threads()
    stowgrad.set_num_threads(1)
    yield
    stowgrad.set_num_threads(before)
