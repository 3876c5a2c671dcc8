"""Pools of a test's own, and figures that nothing else changes."""

from __future__ import annotations

import gc

import pytest

from stowgrad.memory import Device, MemoryPool
from stowgrad.memory.backing import HostBacking


@pytest.fixture(autouse=True)
def no_collection_in_between():
    """Garbage of other tests must not be freed while this one compares what is allocated."""
    enabled = gc.isenabled()
    gc.disable()
    yield
    if enabled:
        gc.enable()


@pytest.fixture
def pool():
    """A pool of host memory that nothing else uses."""
    return MemoryPool(Device("cpu"), HostBacking())
