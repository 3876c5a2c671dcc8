"""Tests of memory figures run without the cyclic collector: what is freed, is freed by reference count."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture
def gc_off() -> Iterator[None]:
    """No cyclic garbage collection, after one that takes what earlier tests left."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
