"""Writers, readers and copies of earlier tests are done before a test begins: their bytes and calls aren't its own."""

from __future__ import annotations

import gc

import pytest

from stowgrad.memory import as_device
from stowgrad.offload import arena
from stowgrad.offload.streams import stream_of


@pytest.fixture(autouse=True)
def nothing_under_way():
    gc.collect()
    for reference in list(arena._arenas):
        found = reference()
        if found is not None:
            found._writer.drain()
            found._reader.drain()
    for direction in ("in", "out"):
        stream_of(as_device("sim:0"), direction)._worker.drain()
