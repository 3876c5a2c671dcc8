"""Discrete Fourier transforms with the names and the conventions of ``torch.fft``.

``norm`` says where the factor 1/n is: ``"backward"`` (the default) has it in the inverse transforms, ``"forward"`` in
the others, ``"ortho"`` has its square root in both. Nothing is kept for backward. Gradients of real signals are real,
those of spectra follow PyTorch's convention for complex gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .autograd.creation import tensor
from .autograd.functions import conj, roll
from .autograd.ops import fft as ops
from .autograd.ops.cast import to_dtype
from .autograd.ops.promotion import category, get_default_dtype
from .autograd.out import into
from .autograd.record import normalize_dim
from .autograd.variable import Variable
from .memory import DeviceLike

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Norm = str | None
Sizes = Sequence[int] | int | None
LAST_TWO = (-2, -1)


# -- along one dimension -----------------------------------------------------------------------------------------------


def fft(input: Any, n: int | None = None, dim: int = -1, norm: Norm = None, *, out: Any = None) -> Any:
    """The transform along a dimension, of the signal filled up with zeros or cut to ``n`` elements.

    Raises:
        RuntimeError: for no elements, an unknown ``norm`` and half precision.

    >>> import stowgrad
    >>> stowgrad.fft.fft(stowgrad.tensor([1.0, 0.0, 0.0, 0.0])).real
    tensor([1., 1., 1., 1.])
    """
    if out is not None:
        return into(out, fft, input, n, dim, norm)
    return _all_of("fft", input, _sizes(n), (dim,), norm, inverse=False)


def ifft(input: Any, n: int | None = None, dim: int = -1, norm: Norm = None, *, out: Any = None) -> Any:
    """The inverse transform along a dimension: see `fft`."""
    if out is not None:
        return into(out, ifft, input, n, dim, norm)
    return _all_of("ifft", input, _sizes(n), (dim,), norm, inverse=True)


def rfft(input: Any, n: int | None = None, dim: int = -1, norm: Norm = None, *, out: Any = None) -> Any:
    """The transform of a real signal: the ``n // 2 + 1`` coefficients of which the others are conjugates.

    Raises:
        RuntimeError: for a complex signal.
    """
    if out is not None:
        return into(out, rfft, input, n, dim, norm)
    return _half_of("rfft", input, _sizes(n), (dim,), norm, inverse=False)


def irfft(input: Any, n: int | None = None, dim: int = -1, norm: Norm = None, *, out: Any = None) -> Any:
    """The real signal of ``n`` elements (an even number by default) of which `rfft` gives these coefficients."""
    if out is not None:
        return into(out, irfft, input, n, dim, norm)
    return _real_of("irfft", input, _sizes(n), (dim,), norm, inverse=True)


def hfft(input: Any, n: int | None = None, dim: int = -1, norm: Norm = None, *, out: Any = None) -> Any:
    """The real transform of a signal with ``x[-i] == conj(x[i])``, of which one half is given: `irfft` forward."""
    if out is not None:
        return into(out, hfft, input, n, dim, norm)
    return _real_of("hfft", input, _sizes(n), (dim,), norm, inverse=False)


def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: Norm = None, *, out: Any = None) -> Any:
    """The half of a signal of which `hfft` gives these real numbers."""
    if out is not None:
        return into(out, ihfft, input, n, dim, norm)
    return _half_of("ihfft", input, _sizes(n), (dim,), norm, inverse=True)


# -- along two ---------------------------------------------------------------------------------------------------------


def fft2(input: Any, s: Sizes = None, dim: Sizes = LAST_TWO, norm: Norm = None, *, out: Any = None) -> Any:
    """`fftn` over the last two dimensions."""
    return fftn(input, s, dim, norm, out=out)


def ifft2(input: Any, s: Sizes = None, dim: Sizes = LAST_TWO, norm: Norm = None, *, out: Any = None) -> Any:
    """`ifftn` over the last two dimensions."""
    return ifftn(input, s, dim, norm, out=out)


def rfft2(input: Any, s: Sizes = None, dim: Sizes = LAST_TWO, norm: Norm = None, *, out: Any = None) -> Any:
    """`rfftn` over the last two dimensions."""
    return rfftn(input, s, dim, norm, out=out)


def irfft2(input: Any, s: Sizes = None, dim: Sizes = LAST_TWO, norm: Norm = None, *, out: Any = None) -> Any:
    """`irfftn` over the last two dimensions."""
    return irfftn(input, s, dim, norm, out=out)


def hfft2(input: Any, s: Sizes = None, dim: Sizes = LAST_TWO, norm: Norm = None, *, out: Any = None) -> Any:
    """`hfftn` over the last two dimensions."""
    return hfftn(input, s, dim, norm, out=out)


def ihfft2(input: Any, s: Sizes = None, dim: Sizes = LAST_TWO, norm: Norm = None, *, out: Any = None) -> Any:
    """`ihfftn` over the last two dimensions."""
    return ihfftn(input, s, dim, norm, out=out)


# -- along any number --------------------------------------------------------------------------------------------------


def fftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None, *, out: Any = None) -> Any:
    """The transform over several dimensions (all, or the last ``len(s)``), filled up with zeros or cut to sizes ``s``.

    Raises:
        RuntimeError: for a dimension named twice, sizes that don't go with the dimensions, and as `fft`.
    """
    if out is not None:
        return into(out, fftn, input, s, dim, norm)
    return _all_of("fftn", input, s, dim, norm, inverse=False)


def ifftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None, *, out: Any = None) -> Any:
    """The inverse transform over several dimensions: see `fftn`."""
    if out is not None:
        return into(out, ifftn, input, s, dim, norm)
    return _all_of("ifftn", input, s, dim, norm, inverse=True)


def rfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None, *, out: Any = None) -> Any:
    """The transform of a real signal over several dimensions, of the last one as `rfft`."""
    if out is not None:
        return into(out, rfftn, input, s, dim, norm)
    return _half_of("rfftn", input, s, dim, norm, inverse=False)


def irfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None, *, out: Any = None) -> Any:
    """The real signal over several dimensions of which `rfftn` gives these coefficients."""
    if out is not None:
        return into(out, irfftn, input, s, dim, norm)
    return _real_of("irfftn", input, s, dim, norm, inverse=True)


def hfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None, *, out: Any = None) -> Any:
    """The real transform of a Hermitian signal over several dimensions, given as its half: `irfftn` forward."""
    if out is not None:
        return into(out, hfftn, input, s, dim, norm)
    return _real_of("hfftn", input, s, dim, norm, inverse=False)


def ihfftn(input: Any, s: Sizes = None, dim: Sizes = None, norm: Norm = None, *, out: Any = None) -> Any:
    """The half of a Hermitian signal over several dimensions of which `hfftn` gives these real numbers."""
    if out is not None:
        return into(out, ihfftn, input, s, dim, norm)
    return _half_of("ihfftn", input, s, dim, norm, inverse=True)


# -- frequencies -------------------------------------------------------------------------------------------------------


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Any:
    """The frequencies of the coefficients of `fft`, for ``n`` samples at a distance of ``d``.

    >>> fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    _check_length(n)
    counts = np.arange(n) - n * (np.arange(n) >= (n + 1) // 2)
    return _frequencies(counts, n, d, out, dtype, device, requires_grad)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Any:
    """The frequencies of the coefficients of `rfft`, for ``n`` samples at a distance of ``d``."""
    _check_length(n)
    return _frequencies(np.arange(n // 2 + 1), n, d, out, dtype, device, requires_grad)


def fftshift(input: Any, dim: Sizes = None) -> Any:
    """The coefficient of frequency 0 moved to the middle of dimensions (all of them by default)."""
    return _shifted("fftshift", input, dim, lambda size: size // 2)


def ifftshift(input: Any, dim: Sizes = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted("ifftshift", input, dim, lambda size: (size + 1) // 2)


# -- what they share ---------------------------------------------------------------------------------------------------


def _sizes(n: int | None) -> Sizes:
    if n is not None and n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return None if n is None else (n,)


def _check_tensor(name: str, input: Any) -> None:
    if not isinstance(input, Variable):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")


def _floating(input: Any) -> Any:
    return to_dtype(input, get_default_dtype()) if category(input._array.dtype) < 2 else input


def _complex(input: Any) -> Any:
    dtype = input._array.dtype
    return input if dtype.kind == "c" else to_dtype(input, np.result_type(dtype, np.complex64))


def _dims_and_sizes(name: str, input: Any, s: Sizes, dim: Sizes) -> tuple[tuple[int, ...], list[int]]:
    """Dimensions counted from the front, and how long the signal is made in each; -1 leaves a size as it is."""
    shape = input._array.shape
    asked = None if s is None else [s] if isinstance(s, int) else list(s)
    if dim is not None:
        given = [dim] if isinstance(dim, int) else list(dim)
        if given and not shape:
            raise IndexError(f"{name}: Dimension specified as {given[0]} but tensor has no dimensions")
        dims = tuple(normalize_dim(name, d, len(shape)) for d in given)
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"{name}: FFT dims must be unique, got {given}")
        if asked is not None and len(asked) != len(dims):
            raise RuntimeError(
                f"{name}: When given, dim and shape arguments must have the same length, got {given} and {asked}"
            )
    elif asked is not None:
        if len(asked) > len(shape):
            raise RuntimeError(
                f"{name}: Got shape with {len(asked)} values but input tensor only has {len(shape)} dimensions."
            )
        dims = tuple(range(len(shape) - len(asked), len(shape)))
    else:
        dims = tuple(range(len(shape)))
    sizes = [-1] * len(dims) if asked is None else asked
    return dims, [shape[d] if size == -1 else size for d, size in zip(dims, sizes, strict=True)]


def _all_of(name: str, input: Any, s: Sizes, dim: Sizes, norm: Norm, inverse: bool) -> Any:
    _check_tensor(name, input)
    input = _floating(input)
    dims, sizes = _dims_and_sizes(name, input, s, dim)
    factor = ops.factor_name(norm, inverse)
    if not dims:
        return _complex(input).clone()
    return ops.fft_c2c(input, dims, tuple(sizes), factor, inverse)


def _half_of(name: str, input: Any, s: Sizes, dim: Sizes, norm: Norm, inverse: bool) -> Any:
    """Half of the spectrum of a real signal; of the inverse transform, which conjugates, if that is meant."""
    _check_tensor(name, input)
    if input._array.dtype.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {input._array.dtype}")
    input = _floating(input)
    dims, sizes = _dims_and_sizes(name, input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    spectrum = ops.fft_r2c(input, dims, tuple(sizes), ops.factor_name(norm, inverse))
    return conj(spectrum) if inverse else spectrum


def _real_of(name: str, input: Any, s: Sizes, dim: Sizes, norm: Norm, inverse: bool) -> Any:
    """The real signal of a half of coefficients; of the forward transform, which conjugates, if that is meant."""
    _check_tensor(name, input)
    input = _complex(_floating(input))
    dims, sizes = _dims_and_sizes(name, input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = -1 if s is None else s if isinstance(s, int) else s[-1]
    length = 2 * (input._array.shape[dims[-1]] - 1) if last == -1 else last
    factor = ops.factor_name(norm, inverse)
    if len(dims) > 1:
        input = ops.fft_c2c(input, dims[:-1], tuple(sizes[:-1]), factor, inverse)
    return ops.fft_c2r(input if inverse else conj(input), dims[-1], length, factor)


def _check_length(n: int) -> None:
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")


def _frequencies(
    counts: Any, n: int, d: float, out: Any, dtype: Any, device: DeviceLike | None, requires_grad: bool
) -> Any:
    kind = np.dtype(dtype or get_default_dtype())
    with np.errstate(divide="ignore", invalid="ignore"):  # 1 / 0 is infinite, and 0 times that NaN
        made = tensor(counts.astype(kind) * np.divide(1.0, n * d).astype(kind), device=device)
    made.requires_grad_(requires_grad)
    return made if out is None else into(out, lambda: made)


def _shifted(name: str, input: Any, dim: Sizes, by: Any) -> Any:
    _check_tensor(name, input)
    shape = input._array.shape
    given = range(len(shape)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = tuple(normalize_dim(name, d, len(shape)) for d in given)
    if not dims:
        raise RuntimeError(f"{name}: `shifts` required; there is no dimension to shift along")
    return roll(input, tuple(by(shape[d]) for d in dims), dims)
