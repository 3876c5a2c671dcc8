"""A strict double of the parts of CuPy that stowgrad uses, on host memory: anything else raises.

CUDA sources of element-wise and reduction kernels are compiled for the host and run, so that what is tested is the
source itself, one element after the other. Device memory is host memory at real addresses, but its arrays are no NumPy
arrays, and mixing the two raises as CuPy does.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import linalg, special
from .arrays import (
    CUDARuntimeError,
    Device,
    Memory,
    MemoryPointer,
    Stream,
    UnownedMemory,
    argsort,
    as_strided,
    ascontiguousarray,
    bincount,
    broadcast_to,
    copyto,
    count_devices,
    empty,
    flatnonzero,
    full,
    matmul,
    ndarray,
    state,
    take,
    words,
    writing,
    zeros,
)
from .exchange import asarray, from_dlpack
from .fft import fft, ifft, irfft, rfft
from .kernels import ElementwiseKernel, ReductionKernel, registry

UFUNCS = words(
    "add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax fmin arctan2 hypot copysign"
    " logaddexp logaddexp2 equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor"
    " bitwise_and bitwise_or bitwise_xor negative absolute sign square reciprocal sqrt cbrt exp exp2 expm1 log log2"
    " log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil trunc rint"
    " conjugate logical_not invert isnan isinf isfinite"
    " left_shift right_shift gcd lcm nextafter signbit deg2rad rad2deg"
)


def modules() -> dict[str, types.ModuleType]:
    """``cupy`` and what lies in it, by name."""
    made = {name: types.ModuleType(name) for name in ("cupy", "cupy.cuda", "cupy.cuda.runtime", "cupy.fft", "cupy.lib")}
    made["cupy.lib.stride_tricks"] = types.ModuleType("cupy.lib.stride_tricks")
    contents: dict[str, dict[str, Any]] = {
        "cupy": {
            **{name: writing(getattr(np, name)) for name in UFUNCS},
            **{
                name: writing(getattr(np, name))
                for name in ("sum", "prod", "amax", "amin", "any", "all", "argmax", "argmin")
            },
            "ndarray": ndarray,
            "asarray": asarray,
            "empty": empty,
            "from_dlpack": from_dlpack,
            "full": full,
            "zeros": zeros,
            "copyto": copyto,
            "take": take,
            "argsort": argsort,
            "bincount": bincount,
            "matmul": matmul,
            "ascontiguousarray": ascontiguousarray,
            "broadcast_to": broadcast_to,
            "flatnonzero": flatnonzero,
            "ElementwiseKernel": ElementwiseKernel,
            "ReductionKernel": ReductionKernel,
            "cuda": made["cupy.cuda"],
            "fft": made["cupy.fft"],
            "lib": made["cupy.lib"],
        },
        "cupy.cuda": {
            "Device": Device,
            "Memory": Memory,
            "MemoryPointer": MemoryPointer,
            "UnownedMemory": UnownedMemory,
            "Stream": Stream,
            "alloc_pinned_memory": bytearray,
            "get_current_stream": lambda device_id=-1: state.stream,
            "set_allocator": lambda allocator: setattr(state, "allocator", allocator),
            "runtime": made["cupy.cuda.runtime"],
        },
        "cupy.cuda.runtime": {
            "CUDARuntimeError": CUDARuntimeError,
            "getDevice": lambda: state.current,
            "getDeviceCount": count_devices,
        },
        "cupy.fft": {"fft": fft, "ifft": ifft, "irfft": irfft, "rfft": rfft},
        "cupy.lib": {"stride_tricks": made["cupy.lib.stride_tricks"]},
        "cupy.lib.stride_tricks": {"as_strided": as_strided},
    }
    for name, content in contents.items():
        vars(made[name]).update(content)
    return linalg.added(made | special.modules())


def names() -> set[str]:
    """Every name of CuPy that the double has, with dots."""
    return {
        f"{module}.{name}".removeprefix("cupy.")
        for module, made in modules().items()
        for name in vars(made)
        if not name.startswith("__") and not module.startswith("cupyx")
    }


@contextlib.contextmanager
def installed() -> Iterator[types.ModuleType]:
    """Let the double be ``cupy``, and the kernels be imported with it; everything is as before afterwards."""
    from stowgrad import kernels
    from stowgrad.memory import pools

    def ours(name: str) -> bool:
        return name.split(".", maxsplit=1)[0] in ("cupy", "cupyx") or name.startswith("stowgrad.kernels.cupy_")

    modules_before = {name: module for name, module in sys.modules.items() if ours(name)}
    loaded, pools_before, package = dict(kernels._loaded), dict(pools._pools), vars(kernels).pop("cupy_", None)
    allocator_before = state.allocator
    for name in modules_before:
        del sys.modules[name]
    registry.clear()
    kernels._loaded.pop("cuda", None)
    for device in [device for device in pools._pools if device.type == "cuda"]:
        del pools._pools[device]
    sys.modules.update(modules())
    state.stream.waited.clear()
    state.ordered.clear()
    try:
        importlib.import_module("stowgrad.kernels.cupy_")
        yield sys.modules["cupy"]
    finally:
        for name in [name for name in sys.modules if ours(name)]:
            del sys.modules[name]
        sys.modules.update(modules_before)
        vars(kernels).pop("cupy_", None)
        if package is not None:
            vars(kernels)["cupy_"] = package
        kernels._loaded.clear()
        kernels._loaded.update(loaded)
        for device in [device for device in pools._pools if device.type == "cuda"]:
            del pools._pools[device]
        pools._pools.update(pools_before)
        state.allocator = allocator_before
