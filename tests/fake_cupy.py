"""A strict double of the parts of CuPy that stowgrad uses, on host memory: anything else raises.

CUDA sources of element-wise and reduction kernels are compiled for the host and run, so that what is tested is the
source itself, one element after the other. Device memory is host memory at real addresses, but its arrays are no NumPy
arrays, and mixing the two raises as CuPy does.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import math
import operator
import subprocess
import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def words(text: str) -> list[str]:
    return text.split()


UFUNCS = words(
    "add subtract multiply divide floor_divide remainder fmod power maximum minimum fmax fmin arctan2 hypot copysign"
    " logaddexp logaddexp2 equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor"
    " bitwise_and bitwise_or bitwise_xor negative absolute sign square reciprocal sqrt cbrt exp exp2 expm1 log log2"
    " log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil trunc rint"
    " conjugate logical_not invert isnan isinf isfinite"
)
C_TYPES = {"float64": "double", "int64": "long long", "uint64": "unsigned long long", "uint8": "unsigned char"}
C_TYPES |= {"bool": "bool", "float32": "float", "int32": "int"}


# -- memory and arrays -------------------------------------------------------------------------------------------------


class Memory:
    """A driver allocation."""

    failing = False

    def __init__(self, size: int) -> None:
        if Memory.failing:
            raise CUDARuntimeError(2)
        self._bytes = (ctypes.c_uint8 * max(size, 1))()
        self.ptr, self.size, self.device_id = ctypes.addressof(self._bytes), size, current[0]


class UnownedMemory:
    def __init__(self, ptr: int, size: int, owner: object, device_id: int) -> None:
        self.ptr, self.size, self._owner, self.device_id = ptr, size, owner, device_id


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        super().__init__(f"cudaError {status}")
        self.status = status


current = [0]
device_count = [2]
_allocator: list[Any] = [lambda size: MemoryPointer(Memory(size), 0)]


class Device:
    def __init__(self, index: int) -> None:
        self.id = index

    def __enter__(self) -> None:
        self._before, current[0] = current[0], self.id

    def __exit__(self, *exc_info: object) -> None:
        current[0] = self._before


class Stream:
    """A stream that notes which others it waited for."""

    _numbers = itertools.count()

    def __init__(self) -> None:
        self.ptr = next(Stream._numbers)
        self.waited: list[object] = []

    def record(self) -> tuple[str, int]:
        return ("event", self.ptr)

    def wait_event(self, event: object) -> None:
        self.waited.append(event)


stream = [Stream()]


def _device_count() -> int:
    if device_count[0] < 0:
        raise CUDARuntimeError(100)
    return device_count[0]


class _Flags:
    def __init__(self, flags: Any) -> None:
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous


def _host(value: Any) -> Any:
    """What NumPy may compute with: a device array's elements, or a number."""
    if isinstance(value, ndarray):
        if value._mem.device_id != current[0]:
            raise ValueError(f"an array of device {value._mem.device_id} on device {current[0]}")
        return value._a
    if isinstance(value, np.ndarray):
        raise TypeError("Unsupported type <class 'numpy.ndarray'>")
    return value


def _device(result: Any) -> Any:
    """What NumPy computed, in device memory."""
    result = np.asarray(result)
    out = empty(result.shape, result.dtype)
    out._a[...] = result
    return out


class ndarray:  # noqa: N801  # CuPy's name
    """An array in device memory."""

    __array_ufunc__ = None

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None) -> None:
        dtype = np.dtype(dtype)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        if memptr is None:
            memptr = _allocator[0](math.prod(shape) * dtype.itemsize)
        mem = memptr.mem
        whole = np.frombuffer((ctypes.c_uint8 * max(mem.size, 1)).from_address(mem.ptr), np.uint8)
        self._mem = mem
        self._a = np.ndarray(shape, dtype, whole, memptr.ptr - mem.ptr, strides)

    def _view(self, array: np.ndarray[Any, Any]) -> ndarray:
        """A result of indexing and the like: a view of the same memory, or a copy in new memory."""
        start, address = self._mem.ptr, array.__array_interface__["data"][0]
        if array.size and not start <= address < start + self._mem.size:
            return _device(array)
        view = object.__new__(ndarray)
        view._a, view._mem = array, self._mem
        return view

    shape = property(lambda self: self._a.shape, lambda self, shape: self._set_shape(shape))
    dtype = property(lambda self: self._a.dtype)
    strides = property(lambda self: self._a.strides)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    itemsize = property(lambda self: self._a.itemsize)
    nbytes = property(lambda self: self._a.nbytes)
    flags = property(lambda self: _Flags(self._a.flags))
    T = property(lambda self: self._view(self._a.T))
    base = property(lambda self: None)

    @property
    def data(self) -> MemoryPointer:
        return MemoryPointer(self._mem, self._a.__array_interface__["data"][0] - self._mem.ptr)

    def _set_shape(self, shape: tuple[int, ...]) -> None:
        try:
            self._a = self._a.reshape(shape, copy=False)
        except ValueError:
            raise AttributeError("Incompatible shape for in-place modification.") from None

    def reshape(self, *shape: Any) -> ndarray:
        return self._view(self._a.reshape(*shape))

    def transpose(self, *axes: Any) -> ndarray:
        return self._view(self._a.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> ndarray:
        return self._view(self._a.swapaxes(a, b))

    def view(self, dtype: Any = None) -> ndarray:
        return self._view(self._a.view() if dtype is None else self._a.view(dtype))

    def astype(self, dtype: Any, copy: bool = True) -> ndarray:
        return self if not copy and self.dtype == dtype else _device(self._a.astype(dtype))

    def copy(self) -> ndarray:
        return _device(self._a)

    def fill(self, value: Any) -> None:
        self._a.fill(_host(value))

    def get(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        if out is None:
            return self._a.copy()
        if out.dtype != self.dtype or out.shape != self.shape or not out.flags.c_contiguous:
            raise TypeError("get: the out does not fit")
        out[...] = self._a
        return out

    def set(self, array: np.ndarray[Any, Any]) -> None:
        if type(array) is not np.ndarray or array.dtype != self.dtype or array.shape != self.shape:
            raise TypeError("set: the array does not fit")
        if not self._a.flags.c_contiguous:
            raise RuntimeError("Cannot set to non-contiguous array")
        self._a[...] = array

    def any(self) -> ndarray:
        return _device(_host(self).any())

    def all(self) -> ndarray:
        return _device(_host(self).all())

    def min(self) -> ndarray:
        return _device(_host(self).min())

    def max(self) -> ndarray:
        return _device(_host(self).max())

    def sum(self) -> ndarray:
        return _device(_host(self).sum())

    def item(self) -> Any:
        return self._a.item()

    def __len__(self) -> int:
        return len(self._a)

    def __getitem__(self, key: Any) -> ndarray:
        key = tuple(map(_host, key)) if isinstance(key, tuple) else _host(key)
        found = self._a[key]
        return self._view(found if isinstance(found, np.ndarray) else self._a[(*np.atleast_1d(key), ...)])

    def __setitem__(self, key: Any, value: Any) -> None:
        key = tuple(map(_host, key)) if isinstance(key, tuple) else _host(key)
        self._a[key] = _host(value)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()`")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.shape:
            return args[0].shape
        if function is np.count_nonzero:
            return _device(np.count_nonzero(_host(args[0])))
        raise TypeError(f"numpy.{function.__name__} of CuPy arrays: not among the calls that are used")


for _name in ("bool", "int", "float", "index"):
    _convert = {"bool": bool, "int": int, "float": float, "index": operator.index}[_name]
    setattr(ndarray, f"__{_name}__", lambda self, convert=_convert: convert(self._a))
for _name in words("add sub mul truediv floordiv mod pow and or xor eq ne lt le gt ge"):
    _operation = getattr(operator, f"__{_name}__")
    setattr(ndarray, f"__{_name}__", lambda x, y, f=_operation: _device(f(_host(x), _host(y))))


# -- functions ---------------------------------------------------------------------------------------------------------


def _writing(function: Any) -> Any:
    """A function of NumPy with ``out=``, on device arrays."""

    def run(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        with np.errstate(all="ignore"):
            if out is None:
                return _device(function(*map(_host, args), **kwargs))
            if not isinstance(out, ndarray):
                raise TypeError("out must be a CuPy array")
            function(*map(_host, args), out=_host(out), **kwargs)
            return out

    return run


def empty(shape: Any, dtype: Any) -> ndarray:
    made = ndarray(shape, dtype)
    made._a.reshape(-1).view(np.uint8)[...] = 0xA5  # what nobody wrote shows
    return made


def full(shape: Any, value: Any, dtype: Any) -> ndarray:
    return _device(np.full(shape, value, dtype))


def zeros(shape: Any, dtype: Any) -> ndarray:
    return full(shape, 0, dtype)


def copyto(dst: ndarray, src: Any, casting: Any = "same_kind", where: Any = None) -> None:
    np.copyto(_host(dst), _host(src), casting=casting, where=True if where is None else _host(where))


def take(a: ndarray, indices: ndarray, axis: int, out: ndarray) -> ndarray:
    if out.dtype != a.dtype:
        raise TypeError("Output dtype mismatch")
    np.take(_host(a), _host(indices), axis, out=_host(out), mode="wrap")
    return out


def argsort(a: ndarray, axis: int = -1, kind: str | None = None) -> ndarray:
    if kind not in (None, "stable"):
        raise ValueError("only stable sorts")
    return _device(np.argsort(_host(a), axis, "stable"))


def matmul(a: ndarray, b: ndarray, out: ndarray | None = None) -> ndarray:
    if max(a.ndim, b.ndim) > 2 and a.dtype.char not in "efdFD":
        raise TypeError("no batched product of this dtype")
    return _writing(np.matmul)(a, b, out=out)  # type: ignore[no-any-return]


def ascontiguousarray(a: ndarray) -> ndarray:
    return a if a._a.flags.c_contiguous else _device(_host(a))


def broadcast_to(a: ndarray, shape: Any) -> ndarray:
    return a._view(np.broadcast_to(a._a, shape))


def as_strided(x: ndarray, shape: Any, strides: Any) -> ndarray:
    return x._view(np.lib.stride_tricks.as_strided(x._a, shape, strides))


def flatnonzero(a: ndarray) -> ndarray:
    return _device(np.flatnonzero(_host(a)))


# -- kernels -----------------------------------------------------------------------------------------------------------


class _Parameter:
    def __init__(self, text: str) -> None:
        *modifiers, self.ctype, self.name = text.split()
        self.raw = "raw" in modifiers

    @property
    def fixed(self) -> np.dtype[Any] | None:
        return np.dtype(self.ctype) if self.ctype in C_TYPES else None


def _parameters(text: str) -> list[_Parameter]:
    return [_Parameter(part) for part in text.split(",") if part.strip()]


registry: list[_Kernel] = []


class _Kernel:
    """What both kinds of kernels are made of."""

    def __init__(self, ins: str, outs: str, name: str, preamble: str) -> None:
        self.ins, self.outs, self.name, self.preamble = _parameters(ins), _parameters(outs), name, preamble
        if not name.isidentifier() or name in {kernel.name for kernel in registry}:
            raise ValueError(f"the kernel's name {name} is no identifier or was used before")
        registry.append(self)

    @property
    def parameters(self) -> list[_Parameter]:
        return self.ins + self.outs

    def types(self) -> list[str]:
        """What T is compiled as."""
        if not any(parameter.ctype == "T" for parameter in self.parameters):
            return [""]
        return ["float64", "float32"] + ([] if "wide<" in self.preamble else ["int64", "bool"])

    def symbol(self, dtype: str) -> str:
        return f"{self.name}_{dtype}"

    def source(self, dtype: str, signature: str, body: str) -> str:
        typedef = f"typedef {C_TYPES[dtype]} T;" if dtype else ""
        return f"namespace n_{self.symbol(dtype)} {{ {typedef}\n{self.preamble}\n{signature} {{ {body} }} }}\n"

    def element_type(self, args: tuple[Any, ...]) -> str:
        """T, which all arrays must agree on; other arrays must have the type that the parameters name."""
        found: set[np.dtype[Any]] = set()
        for parameter, arg in zip(self.parameters, args, strict=True):
            if not isinstance(arg, ndarray):
                continue
            if parameter.fixed is None:
                found.add(arg.dtype)
            elif arg.dtype != parameter.fixed:
                raise TypeError(f"Type is mismatched. {parameter.name} {arg.dtype} {parameter.fixed}")
        if len(found) > 1:
            raise TypeError(f"Type is mismatched: {found}")
        return str(found.pop()) if found else ""


def _arguments(ins: list[Any], dtype: str, parameters: list[_Parameter]) -> tuple[list[Any], Any, Any]:
    """Contiguous arrays and numbers, their addresses, and whether each is an array."""
    kept = [
        np.asarray(value, parameter.fixed if parameter.fixed is not None else np.dtype(dtype))
        if not isinstance(value, np.ndarray)
        else value
        for value, parameter in zip(ins, parameters, strict=True)
    ]
    pointers = (ctypes.c_void_p * len(kept))(*[value.ctypes.data for value in kept])
    steps = (ctypes.c_longlong * len(kept))(*[int(isinstance(value, np.ndarray)) for value in ins])
    return kept, pointers, steps


class ElementwiseKernel(_Kernel):
    def __init__(self, in_params: str, out_params: str, operation: str, name: str, preamble: str = "") -> None:
        self.operation = operation
        super().__init__(in_params, out_params, name, preamble)

    def host_source(self, dtype: str) -> str:
        lines = []
        for number, parameter in enumerate(self.parameters):
            const = "const " if parameter in self.ins else ""
            ctype = C_TYPES.get(parameter.ctype, parameter.ctype)
            if parameter.raw:
                lines.append(f"{const}{ctype} *{parameter.name} = ({const}{ctype} *)_p[{number}];")
            else:
                at = f"_s[{number}] ? i : 0"
                lines.append(f"{const}{ctype} &{parameter.name} = (({const}{ctype} *)_p[{number}])[{at}];")
        body = f"for (std::ptrdiff_t i = 0; i < size; ++i) {{ {' '.join(lines)} {self.operation}; }}"
        signature = f'extern "C" void {self.symbol(dtype)}(long long size, void **_p, long long *_s)'
        return self.source(dtype, signature, body)

    def __call__(self, *args: Any, size: int | None = None) -> None:
        if len(args) != len(self.parameters):
            raise TypeError(f"Wrong number of arguments for {self.name}")
        dtype = self.element_type(args)
        pairs = list(zip(self.parameters, args, strict=True))
        looped = [_host(arg) for parameter, arg in pairs if isinstance(arg, ndarray) and not parameter.raw]
        if (size is None) == (not looped):
            raise ValueError("Loop size is undecided, or given twice")
        shape = (size,) if size is not None else np.broadcast_shapes(*[array.shape for array in looped])
        values, back = [], []
        for parameter, arg in pairs:
            if not isinstance(arg, ndarray):
                if parameter in self.outs or isinstance(arg, np.ndarray):
                    raise TypeError("arrays must be CuPy arrays")
                values.append(arg)
                continue
            array = _host(arg)
            if parameter in self.outs and not parameter.raw and array.shape != shape:
                raise ValueError("Out shape is mismatched")
            whole = array if parameter.raw else np.broadcast_to(array, shape)
            dense = np.ascontiguousarray(whole)
            if parameter in self.outs and not np.shares_memory(dense, array):
                back.append((array, dense))
            values.append(dense)
        kept, pointers, steps = _arguments(values, dtype, self.parameters)
        getattr(_library(), self.symbol(dtype))(ctypes.c_longlong(math.prod(shape)), pointers, steps)
        for array, dense in back:
            array[...] = dense
        del kept


class ReductionKernel(_Kernel):
    def __init__(
        self,
        in_params: str,
        out_params: str,
        map_expr: str,
        reduce_expr: str,
        post_map_expr: str,
        identity: str,
        name: str,
        reduce_type: str | None = None,
        preamble: str = "",
    ) -> None:
        self.expressions = (map_expr, reduce_expr, post_map_expr, identity)
        self.reduce_type = reduce_type
        super().__init__(in_params, out_params, name, preamble)

    def host_source(self, dtype: str) -> str:
        mapped, reduced, post, identity = self.expressions
        (out,) = self.outs
        out_type = C_TYPES.get(out.ctype, out.ctype)
        lines = []
        for number, parameter in enumerate(self.ins):
            ctype = C_TYPES.get(parameter.ctype, parameter.ctype)
            lines.append(f"const {ctype} &{parameter.name} = ((const {ctype} *)_p[{number}])[_s[{number}] ? at : 0];")
        body = f"""
        typedef {self.reduce_type or out_type} R;
        for (long long o = 0; o < count; ++o) {{
          R total = R({identity});
          for (long long j = 0; j < length; ++j) {{
            long long at = o * length + j; {" ".join(lines)}
            R b = static_cast<R>({mapped}); R a = total;
            total = {reduced};
          }}
          const long long at = 0; {" ".join(lines)}
          R a = total; {out_type} &{out.name} = (({out_type} *)_p[{len(self.ins)}])[o];
          {post};
        }}
        """
        signature = f'extern "C" void {self.symbol(dtype)}(long long count, long long length, void **_p, long long *_s)'
        return self.source(dtype, signature, body)

    def __call__(self, *args: Any, axis: int | None = None, keepdims: bool = False) -> ndarray:
        given = list(args[len(self.ins) :])
        ins = [_host(arg) for arg in args[: len(self.ins)]]
        dtype = self.element_type((*args[: len(self.ins)], *(given or [None] * len(self.outs))))
        shape = np.broadcast_shapes(*[array.shape for array in ins if isinstance(array, np.ndarray)])
        axes = tuple(range(len(shape))) if axis is None else (axis % len(shape),)
        kept = tuple(d for d in range(len(shape)) if d not in axes)
        out_shape = tuple((1 if d in axes else n) for d, n in enumerate(shape) if keepdims or d not in axes)
        out_dtype = self.outs[0].fixed
        out = given[0] if given else empty(out_shape, np.dtype(dtype) if out_dtype is None else out_dtype)
        if out.shape != out_shape:
            raise ValueError("Out shape is mismatched")
        values = [
            np.ascontiguousarray(np.broadcast_to(v, shape).transpose(*kept, *axes)) if isinstance(v, np.ndarray) else v
            for v in ins
        ]
        length = math.prod(shape[d] for d in axes)
        dense = np.ascontiguousarray(_host(out))
        alive, pointers, steps = _arguments([*values, dense], dtype, self.parameters)
        getattr(_library(), self.symbol(dtype))(
            ctypes.c_longlong(math.prod(out_shape)), ctypes.c_longlong(length), pointers, steps
        )
        out._a[...] = dense
        del alive
        return out  # type: ignore[no-any-return]


_HEADER = """
#include <cmath>
#include <cstddef>
#define __device__
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
using std::exp; using std::log; using std::sqrt; using std::tanh; using std::erf; using std::erfc; using std::cos;
"""
_compiled: dict[str, Any] = {}


def _library() -> Any:
    """All kernels that are known, compiled for the host, at once."""
    source = _HEADER + "".join(kernel.host_source(dtype) for kernel in registry for dtype in kernel.types())
    found = _compiled.get(source)
    if found is None:
        folder = Path(tempfile.mkdtemp(prefix="stowgrad-kernels-"))
        (folder / "kernels.cpp").write_text(source)
        command = ["g++", "-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-o", "kernels.so", "kernels.cpp"]
        built = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if built.returncode:
            raise RuntimeError(built.stderr)
        found = _compiled[source] = ctypes.CDLL(str(folder / "kernels.so"))
    return found


# -- the modules -------------------------------------------------------------------------------------------------------


def modules() -> dict[str, types.ModuleType]:
    """``cupy`` and what lies in it, by name."""
    made = {name: types.ModuleType(name) for name in ("cupy", "cupy.cuda", "cupy.cuda.runtime", "cupy.lib")}
    made["cupy.lib.stride_tricks"] = types.ModuleType("cupy.lib.stride_tricks")
    contents: dict[str, dict[str, Any]] = {
        "cupy": {
            **{name: _writing(getattr(np, name)) for name in UFUNCS},
            **{name: _writing(getattr(np, name)) for name in ("sum", "amax", "amin", "argmax", "argmin")},
            "ndarray": ndarray,
            "empty": empty,
            "full": full,
            "zeros": zeros,
            "copyto": copyto,
            "take": take,
            "argsort": argsort,
            "matmul": matmul,
            "ascontiguousarray": ascontiguousarray,
            "broadcast_to": broadcast_to,
            "flatnonzero": flatnonzero,
            "ElementwiseKernel": ElementwiseKernel,
            "ReductionKernel": ReductionKernel,
            "cuda": made["cupy.cuda"],
            "lib": made["cupy.lib"],
        },
        "cupy.cuda": {
            "Device": Device,
            "Memory": Memory,
            "MemoryPointer": MemoryPointer,
            "UnownedMemory": UnownedMemory,
            "get_current_stream": lambda device_id=-1: stream[0],
            "set_allocator": lambda allocator: _allocator.__setitem__(0, allocator),
            "runtime": made["cupy.cuda.runtime"],
        },
        "cupy.cuda.runtime": {
            "CUDARuntimeError": CUDARuntimeError,
            "getDevice": lambda: current[0],
            "getDeviceCount": _device_count,
        },
        "cupy.lib": {"stride_tricks": made["cupy.lib.stride_tricks"]},
        "cupy.lib.stride_tricks": {"as_strided": as_strided},
    }
    for name, content in contents.items():
        vars(made[name]).update(content)
    return made


def names() -> set[str]:
    """Every name of CuPy that the double has, with dots."""
    return {
        f"{module}.{name}".removeprefix("cupy.")
        for module, made in modules().items()
        for name in vars(made)
        if not name.startswith("__")
    }


@contextlib.contextmanager
def installed() -> Iterator[types.ModuleType]:
    """Let the double be ``cupy``, and the kernels be imported with it; everything is as before afterwards."""
    from stowgrad import kernels, memory
    from stowgrad.autograd import arrays
    from stowgrad.memory import pools

    def ours(name: str) -> bool:
        return name.split(".", maxsplit=1)[0] in ("cupy", "cupyx") or name.startswith("stowgrad.kernels.cupy_")

    modules_before = {name: module for name, module in sys.modules.items() if ours(name)}
    loaded, pools_before, package = dict(kernels._loaded), dict(pools._pools), vars(kernels).pop("cupy_", None)
    allocator = _allocator[0]
    for name in modules_before:
        del sys.modules[name]
    registry.clear()
    kernels._loaded.pop("cuda", None)
    for device in [device for device in pools._pools if device.type == "cuda"]:
        del pools._pools[device]
    sys.modules.update(modules())
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
        arrays._known.pop(memory.Device("cuda"), None)
        _allocator[0] = allocator
