"""Writers and readers of earlier tests are done before a test begins: their bytes and calls aren't its own."""

from __future__ import annotations

import gc

import pytest

from stowgrad.offload import arena


@pytest.fixture(autouse=True)
def nothing_under_way():
    gc.collect()
    for reference in list(arena._arenas):
        found = reference()
        if found is not None:
            found._writer.drain()
            found._reader.drain()
