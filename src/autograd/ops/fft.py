"""Fourier transforms. Each is linear, so that nothing is saved; the derivatives are the transforms of each other.

NOTE [ Lengths and factors ]
1. A record is told the length of every transform: input is filled up with zeros or cut to it by the kernel. The
   derivative transforms at the same length and is cut or filled up afterwards.
2. The factor (``"none"``, ``"by_root_n"``, ``"by_n"``) does not depend on the direction, so that the derivative of a
   transform is the opposite one with the same factor.
3. Of the coefficients of a real signal one half is kept. Those in its middle stand for two each, which the derivatives
   make up for with a factor of 2 or 1/2: see `FftMiddle`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...kernels import get_num_threads
from ..dispatch import Op
from ..record import Do, Spec
from .cast import to_dtype
from .promotion import category
from .shape import index, index_backward

Dims = tuple[int, ...]


def _checked(name: str, dtype: np.dtype[Any], lengths: Dims) -> None:
    if dtype.kind not in "fc" or dtype.itemsize < 4:
        raise RuntimeError(f"{name}: Unsupported dtype {dtype}")
    for length in lengths:
        if length < 1:
            raise RuntimeError(f"{name}: Invalid number of data points ({length}) specified")


def _complex(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.result_type(dtype, np.complex64)


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32) if dtype == np.complex64 else np.dtype(np.float64)


def with_lengths(shape: Dims, dims: Dims, lengths: Dims) -> Dims:
    """A shape with other sizes in some dimensions."""
    sizes = list(shape)
    for dim, length in zip(dims, lengths, strict=True):
        sizes[dim] = length
    return tuple(sizes)


def _resized(do: Do, x: Any, shape: Dims) -> Any:
    """``x`` cut, or filled up with zeros, at the end of each dimension."""
    if any(have > want for have, want in zip(x.shape, shape, strict=True)):
        x = do(index, x, tuple(slice(min(have, want)) for have, want in zip(x.shape, shape, strict=True)))
    if x.shape != shape:
        x = do(index_backward, x, tuple(slice(size) for size in x.shape), shape)
    return x


def _line_buffers(out_itemsize: int, lengths: Dims, size: int) -> int:
    """Bytes of the copies of a line that NumPy's transforms work in, at most two in each thread."""
    return 2 * out_itemsize * max(lengths) * min(get_num_threads(), max(1, size // max(lengths)))


class FftC2C(Op):
    """The discrete Fourier transform of complex or real numbers, forward or inverse, over some dimensions."""

    name = "fft_c2c"

    def infer(self, x: Any, dims: Dims, lengths: Dims, norm: str, inverse: bool) -> tuple[Spec, ...]:
        _checked("fft", x.dtype, lengths)
        return ((with_lengths(x.shape, dims, lengths), _complex(x.dtype)),)

    def kernel(self, k: Any, x: Any, dims: Dims, lengths: Dims, norm: str, inverse: bool, out: Any) -> None:
        k.fft_c2c(x, out, axes=dims[::-1], inverse=inverse, norm=norm)

    def workspace(self, x: Any, dims: Dims, lengths: Dims, norm: str, inverse: bool) -> int:
        return _line_buffers(_complex(x.dtype).itemsize, lengths, x.size)

    def attrs(self, x: Any, *args: Any) -> Any:
        return x.shape, x.dtype, *args

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, dtype, dims, lengths, norm, inverse = node.op_attrs
        back = _resized(do, do(fft_c2c, grads[0], dims, lengths, norm, not inverse), shape)
        return (back if category(dtype) == 3 else do(to_dtype, back, dtype),)


class FftR2C(Op):
    """The forward transform of real numbers; of the last of the dimensions only one half of the coefficients."""

    name = "fft_r2c"

    def infer(self, x: Any, dims: Dims, lengths: Dims, norm: str) -> tuple[Spec, ...]:
        _checked("rfft", x.dtype, lengths)
        halved = (*lengths[:-1], lengths[-1] // 2 + 1)
        return ((with_lengths(x.shape, dims, halved), _complex(x.dtype)),)

    def kernel(self, k: Any, x: Any, dims: Dims, lengths: Dims, norm: str, out: Any) -> None:
        k.fft_r2c(x, out, axes=dims, length=lengths[-1], norm=norm)

    def workspace(self, x: Any, dims: Dims, lengths: Dims, norm: str) -> int:
        return _line_buffers(_complex(x.dtype).itemsize, lengths, x.size)

    def attrs(self, x: Any, *args: Any) -> Any:
        return x.shape, *args

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, dims, lengths, norm = node.op_attrs
        (grad,) = grads
        if len(dims) > 1:
            grad = do(fft_c2c, grad, dims[:-1], lengths[:-1], norm, True)
        halves = do(fft_middle, grad, dims[-1], lengths[-1], 0.5)
        return (_resized(do, do(fft_c2r, halves, dims[-1], lengths[-1], norm), shape),)


class FftC2R(Op):
    """The inverse transform, over one dimension, of the half of the coefficients that stands for real numbers."""

    name = "fft_c2r"

    def infer(self, x: Any, dim: int, length: int, norm: str) -> tuple[Spec, ...]:
        _checked("irfft", x.dtype, (length,))
        return ((with_lengths(x.shape, (dim,), (length,)), _real(x.dtype)),)

    def kernel(self, k: Any, x: Any, dim: int, length: int, norm: str, out: Any) -> None:
        k.fft_c2r(x, out, axis=dim, norm=norm)

    def workspace(self, x: Any, dim: int, length: int, norm: str) -> int:
        return _line_buffers(x.dtype.itemsize, (length,), x.size)

    def attrs(self, x: Any, *args: Any) -> Any:
        return x.shape, *args

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        shape, dim, length, norm = node.op_attrs
        doubled = do(fft_middle, do(fft_r2c, grads[0], (dim,), (length,), norm), dim, length, 2.0)
        return (_resized(do, doubled, shape),)


class FftMiddle(Op):
    """A half of coefficients, times a factor where they stand for two each: all but the first, and the last of an even
    number.
    """

    name = "fft_middle"

    def infer(self, x: Any, dim: int, length: int, factor: float) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, dim: int, length: int, factor: float, out: Any) -> None:
        k.fft_middle(x, out, axis=dim, length=length, factor=factor)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(fft_middle, grads[0], *node.op_attrs),)


def factor_name(norm: str | None, inverse: bool) -> str:
    """The factor that PyTorch's ``norm`` means in a direction.

    Raises:
        RuntimeError: for an unknown one.
    """
    if norm == "ortho":
        return "by_root_n"
    if norm in (None, "backward"):
        return "by_n" if inverse else "none"
    if norm == "forward":
        return "none" if inverse else "by_n"
    raise RuntimeError(f'Invalid normalization mode: "{norm}"; expected "backward", "ortho" or "forward"')


fft_c2c = FftC2C()
fft_r2c = FftR2C()
fft_c2r = FftC2R()
fft_middle = FftMiddle()
