"""Arrays in, ``out`` filled, nothing else: tiled and threaded NumPy kernels, and the same names for CuPy.

A kernel is called ``name(inputs..., outs..., *, attributes)``. The caller leases the outs: C-contiguous, of the right
shape and dtype. Inputs may have any strides. Kernels lease their own scratch (`executor.scratch`).
"""

from __future__ import annotations

import importlib
from types import ModuleType

from . import executor
from .executor import get_num_threads, parallel_for, set_num_threads

__all__ = ["backend", "executor", "get_num_threads", "parallel_for", "set_num_threads"]

_MODULES = {"cpu": "numpy_", "sim": "numpy_", "cuda": "cupy_"}
_loaded: dict[str, ModuleType] = {}


def backend(device_type: str) -> ModuleType:
    """The module of kernels for a device type: ``"cpu"`` and ``"sim"`` have NumPy's, ``"cuda"`` has CuPy's.

    Raises:
        ValueError: for a device type without kernels.
    """
    found = _loaded.get(device_type)
    if found is None:
        name = _MODULES.get(device_type)
        if name is None:
            raise ValueError(f"no kernels for device type {device_type!r}; there are some for {', '.join(_MODULES)}")
        found = _loaded[device_type] = importlib.import_module(f".{name}", __name__)
    return found
