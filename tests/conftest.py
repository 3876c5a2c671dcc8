"""For all tests: the pytest plugin, also in a checkout that is not installed."""

from __future__ import annotations

import gc

from stowgrad.profiler import pytest_plugin

pytest_plugins = ["pytester"]


def pytest_addoption(pluginmanager):
    if not pluginmanager.hasplugin("memprof"):
        pluginmanager.register(pytest_plugin, "memprof")


def pytest_collection_finish():
    """Twenty thousand collected tests are not looked at again each time that a test has garbage collected."""
    gc.collect()
    gc.freeze()
