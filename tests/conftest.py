"""For all tests: the pytest plugin, also in a checkout that is not installed."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stowgrad.profiler import pytest_plugin

pytest_plugins = ["pytester"]


def pytest_addoption(pluginmanager):
    if not pluginmanager.hasplugin("memprof"):
        pluginmanager.register(pytest_plugin, "memprof")


def pytest_collection_finish():
    """Twenty thousand collected tests are not looked at again each time that a test has garbage collected."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No cyclic garbage collection, after one that takes what earlier tests left: what is freed is freed by counts."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
