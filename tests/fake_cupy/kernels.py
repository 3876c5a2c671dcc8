"""The double's kernels: CUDA sources, compiled for the host."""

from __future__ import annotations

import ctypes
import math
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import empty, host, ndarray

C_TYPES = {"float64": "double", "int64": "long long", "uint64": "unsigned long long", "uint8": "unsigned char"}
C_TYPES |= {"bool": "bool", "float32": "float", "int32": "int"}


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
        looped = [host(arg) for parameter, arg in pairs if isinstance(arg, ndarray) and not parameter.raw]
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
            array = host(arg)
            if parameter in self.outs and not parameter.raw and array.shape != shape:
                raise ValueError("Out shape is mismatched")
            whole = array if parameter.raw else np.broadcast_to(array, shape)
            dense = np.ascontiguousarray(whole)
            if parameter in self.outs and not np.shares_memory(dense, array):
                back.append((array, dense))
            values.append(dense)
        kept, pointers, steps = _arguments(values, dtype, self.parameters)
        getattr(library(), self.symbol(dtype))(ctypes.c_longlong(math.prod(shape)), pointers, steps)
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

    def __call__(self, *args: Any, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> ndarray:
        given = list(args[len(self.ins) :])
        ins = [host(arg) for arg in args[: len(self.ins)]]
        dtype = self.element_type((*args[: len(self.ins)], *(given or [None] * len(self.outs))))
        shape = np.broadcast_shapes(*[array.shape for array in ins if isinstance(array, np.ndarray)])
        given_axes = (axis,) if isinstance(axis, int) else axis
        axes = tuple(range(len(shape)) if given_axes is None else (d % len(shape) for d in given_axes))
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
        dense = np.ascontiguousarray(host(out))
        alive, pointers, steps = _arguments([*values, dense], dtype, self.parameters)
        getattr(library(), self.symbol(dtype))(
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
using std::expm1; using std::log1p;
"""
_compiled: dict[str, Any] = {}


def library() -> Any:
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
