"""What every test and doctest shares: the package importable uninstalled, devices, and a watch on leaked state."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

if importlib.util.find_spec("stowgrad") is None:  # a checkout without symlinks, not installed
    _source = Path(__file__).resolve().parent / "src"
    _spec = importlib.util.spec_from_file_location(
        "stowgrad", _source / "__init__.py", submodule_search_locations=[str(_source)]
    )
    assert _spec is not None
    assert _spec.loader is not None
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["stowgrad"] = _module
    _spec.loader.exec_module(_module)

from stowgrad.memory import events
from stowgrad.saved_tensors import state

# Machines are shared, so no example is failed for its time; CI draws the same examples every time.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

# Collecting imports the file, and these can't be imported without the package that they are about.
collect_ignore_glob = []
if importlib.util.find_spec("cupy") is None:
    collect_ignore_glob += ["*/cupy_*.py", "*/cupy_/*.py"]
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob += ["tests/oracle/*"]


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in tests/oracle, so that no comparison with PyTorch is left out of both test runs."""
    oracle = Path(__file__).resolve().parent / "tests" / "oracle"
    for item in items:
        if oracle in item.path.parents:
            item.add_marker(pytest.mark.oracle)


@functools.cache
def _cuda_is_there() -> bool:
    """Whether CuPy is installed and sees a device."""
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def _devices() -> list[object]:
    devices: list[object] = ["cpu", "sim:0"]
    if _cuda_is_there():
        devices.append(pytest.param("cuda:0", marks=pytest.mark.cuda))
    return devices


@pytest.fixture(params=_devices())
def device(request: pytest.FixtureRequest) -> str:
    """Each device on which ops run here: ``"cpu"``, ``"sim:0"`` and, where there is one, ``"cuda:0"``."""
    return str(request.param)


@pytest.fixture(autouse=True)
def no_leaked_state() -> Iterator[None]:
    """Fail a test that leaves grad mode, saved-tensor hooks or observers changed; put them right for the next one."""
    before, watching = state.current(), events.observers
    yield
    leaks = []
    after = state.current()
    if after.grad_flag != before.grad_flag:
        leaks.append(f"grad mode is {'on' if after.grad_flag else 'off'}")
    if after.inference != before.inference:
        leaks.append(f"inference mode is {'on' if after.inference else 'off'}")
    if after.disabled != before.disabled:
        leaks.append(f"saved-tensor hooks are disabled: {after.disabled}")
    if after.hooks != before.hooks:
        leaks.append(f"saved-tensor hooks are still in force: {after.hooks}")
    state.set_state(before)
    left = [observer for observer in events.observers if observer not in watching]
    if left:
        leaks.append(f"observers still watch: {left}")
    for observer in left:
        events.remove_observer(observer)
    if leaks:
        pytest.fail("the test left state behind: " + "; ".join(leaks), pytrace=False)
