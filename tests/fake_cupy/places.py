"""Where a test of the CUDA side runs: on the double of CuPy, and on a GPU where there is one."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from . import installed


@functools.cache
def _gpu_is_there() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    cupy = importlib.import_module("cupy")
    try:
        return bool(cupy.cuda.runtime.getDeviceCount() > 0)
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


PLACES = ["double", *([pytest.param("gpu", marks=pytest.mark.cuda)] if _gpu_is_there() else [])]


@contextlib.contextmanager
def cupy_at(place: str) -> Iterator[Any]:
    """The module ``cupy`` of a place, used by stowgrad meanwhile."""
    if place == "gpu":
        yield importlib.import_module("cupy")
    elif shutil.which("g++") is None:
        pytest.skip("the double runs CUDA sources compiled by g++")
    else:
        with installed() as double:
            yield double
