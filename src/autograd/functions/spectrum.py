"""The short-time Fourier transform and its inverse, made of windows and transforms along them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...memory import META
from ..frames import user_level
from ..ops import fft
from ..ops.arrange import constant_pad, pad_edges
from ..ops.cast import constant, to_dtype
from ..ops.complex import view_as_real
from ..ops.elementwise import abs, div, lt, mul, square
from ..ops.reduce import amin
from ..ops.shape import index, reshape, transpose
from ..ops.sum_to import expand
from ..ops.view import unfold, unfold_backward

__all__ = ["istft", "stft"]

_LEAST_ENVELOPE = 1e-11  # below it the windows do not cover the signal


def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
) -> Any:
    """The Fourier transforms of windows of a signal, ``hop_length`` (a quarter of ``n_fft``) apart.

    Args:
        input: a signal, or a batch of them.
        n_fft: how many samples a transform takes.
        win_length: how many of them the window covers, in the middle.
        window: factors; ones by default.
        center: whether windows are centred on their samples; the signal is padded for that.
        pad_mode: how: ``"reflect"``, ``"replicate"``, ``"circular"`` or ``"constant"``.
        normalized: whether the factor is one over the root of ``n_fft``.
        onesided: whether only half of the coefficients is returned: so by default for real signals.
        return_complex: whether the result is complex, or its parts lie along a new last dimension.

    Returns:
        Coefficients by frequency and window: ``(..., frequencies, windows)``.

    Raises:
        RuntimeError: for sizes that do not fit, and without ``return_complex`` for a real signal.

    >>> import stowgrad
    >>> stowgrad.stft(stowgrad.randn(2, 100), 16, return_complex=True).shape
    (2, 9, 26)
    """
    is_complex = _is_complex(input) or _is_complex(window)
    if return_complex is None and not is_complex:
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if input._array.dtype.kind not in "fc":
        raise RuntimeError(f"stft: expected a tensor of floating point or complex values, got {input._array.dtype}")
    sizes = input._array.shape
    if len(sizes) not in (1, 2):
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, got one of shape {list(sizes)}")
    x = input if len(sizes) == 2 else reshape(input, (1, *sizes))
    if center:
        x = _padded(x, n_fft // 2, pad_mode)
    hop_length, win_length = _lengths("stft", n_fft, hop_length, win_length)
    length = x._array.shape[1]
    if not 0 < n_fft <= length:
        raise RuntimeError(f"stft: expected 0 < n_fft <= {length}, but got n_fft={n_fft}")
    factors = _window("stft", x, n_fft, win_length, window)
    frames = unfold(x, 1, n_fft, hop_length)
    if factors is not None:
        frames = mul(frames, factors)
    factor = "by_root_n" if normalized else "none"
    if is_complex or onesided is False:
        spectrum = fft.fft_c2c(frames, (2,), (n_fft,), factor, False)
    else:
        spectrum = fft.fft_r2c(frames, (2,), (n_fft,), factor)
    spectrum = transpose(spectrum, 1, 2)
    if len(sizes) == 1:
        spectrum = reshape(spectrum, spectrum._array.shape[1:])
    return spectrum if return_complex or return_complex is None else view_as_real(spectrum)


def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Any:
    """The signal, or batch of signals, that fits best to the coefficients of `stft` with the same arguments.

    Args:
        length: how long the signal is; by default all that the windows cover, without what ``center`` padded.
        return_complex: whether the signal is complex.

    Raises:
        RuntimeError: for sizes that do not fit, and where the windows do not cover a part of the signal.
    """
    if not _is_complex(input):
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    sizes = input._array.shape
    if len(sizes) not in (2, 3):
        raise RuntimeError(f"istft: expected a tensor of frequencies and windows, got one of shape {list(sizes)}")
    if not input._array.size:
        raise RuntimeError("istft: input tensor cannot be empty.")
    onesided = _checked_sides(sizes[-2], n_fft, onesided, window, return_complex)
    hop_length, win_length = _lengths("istft", n_fft, hop_length, win_length)
    if not 0 < hop_length <= win_length:
        raise RuntimeError(f"istft: expected 0 < hop_length <= win_length, got {hop_length} and {win_length}")
    x = transpose(input if len(sizes) == 3 else reshape(input, (1, *sizes)), 1, 2)
    factor = "by_root_n" if normalized else "by_n"
    if return_complex:
        frames = fft.fft_c2c(x, (2,), (n_fft,), factor, True)
    else:
        frames = fft.fft_c2r(x, 2, n_fft, factor)
    signal, envelope = _overlapped(frames, _window("istft", frames, n_fft, win_length, window), hop_length)
    signal = _cut(signal, envelope, n_fft, center, length)
    return signal if len(sizes) == 3 else reshape(signal, signal._array.shape[1:])


# -- what they are made of ---------------------------------------------------------------------------------------------


def _is_complex(tensor: Any) -> bool:
    return tensor is not None and tensor._array.dtype.kind == "c"


def _lengths(name: str, n_fft: int, hop_length: int | None, win_length: int | None) -> tuple[int, int]:
    """The distance of windows and how long they are."""
    hop = n_fft // 4 if hop_length is None else hop_length
    covered = n_fft if win_length is None else win_length
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < covered <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={covered}")
    return hop, covered


def _padded(x: Any, by: int, mode: str) -> Any:
    if mode == "constant":
        return constant_pad(x, ((0, 0), (by, by)), 0)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"stft: unknown pad_mode {mode!r}")
    length = x._array.shape[1]
    if (mode == "reflect" and by >= length) or (mode == "circular" and by > length):
        raise RuntimeError(
            f"stft: Padding size should be less than the corresponding input dimension, but got: padding {by} at a"
            f" dimension of size {length}"
        )
    return pad_edges(x, ((1, by, by),), mode) if by else x


def _window(name: str, x: Any, n_fft: int, win_length: int, window: Any) -> Any:
    """The factors of the ``n_fft`` samples of a window, or None where all are 1."""
    if window is None:
        if win_length == n_fft:
            return None
        dtype = np.float32 if x._array.dtype in (np.float32, np.complex64) else np.float64
        window = constant(np.ones(win_length, dtype), x._storage.device)
    shape = window._array.shape
    if shape != (win_length,):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with size"
            f" {list(shape)}"
        )
    before = (n_fft - win_length) // 2
    behind = n_fft - win_length - before
    return constant_pad(window, ((before, behind),), 0) if before or behind else window


def _checked_sides(frequencies: int, n_fft: int, onesided: bool | None, window: Any, return_complex: bool) -> bool:
    """Whether a half of the coefficients is given."""
    half = n_fft // 2 + 1
    one = frequencies != n_fft if onesided is None else onesided
    if frequencies != (half if one else n_fft):
        raise RuntimeError(
            "istft: expected the frequency dimension (3rd to the last) of the input tensor to match"
            f" {'n_fft / 2 + 1' if one else 'n_fft'} when onesided={one}, but got {frequencies}"
        )
    if return_complex and one:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    if not return_complex and _is_complex(window):
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    return one


def _overlapped(frames: Any, factors: Any, hop_length: int) -> tuple[Any, Any]:
    """The sum of windows where they lie in the signal, and of the squares of their factors."""
    batch, count, n_fft = frames._array.shape
    length = n_fft + hop_length * (count - 1)
    if factors is None:
        dtype = np.float32 if frames._array.dtype in (np.float32, np.complex64) else np.float64
        squares = constant(np.ones(n_fft, dtype), frames._storage.device)
    else:
        frames, squares = mul(frames, factors), square(factors)
    signal = unfold_backward(frames, (batch, length), 1, n_fft, hop_length)
    return signal, unfold_backward(expand(squares, (1, count, n_fft)), (1, length), 1, n_fft, hop_length)


def _cut(signal: Any, envelope: Any, n_fft: int, center: bool, length: int | None) -> Any:
    """The part of a signal that was asked for, over the envelope of its windows."""
    covered = signal._array.shape[1]
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else covered - n_fft // 2 if center else covered
    part = (slice(None), slice(start, min(end, covered)))
    signal, envelope = index(signal, part), index(envelope, part)
    if signal._storage.device is not META and bool(lt(amin(abs(envelope)), _LEAST_ENVELOPE).item()):
        raise RuntimeError("istft: window overlap add min: the windows do not cover a part of the signal")
    if envelope._array.dtype.kind != "c" and signal._array.dtype.kind == "c":
        envelope = to_dtype(envelope, signal._array.dtype)
    signal = div(signal, envelope)
    if end > covered:
        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail."
            " Please check your center and hop_length settings.",
            UserWarning,
            stacklevel=user_level(),
        )
        signal = constant_pad(signal, ((0, 0), (0, end - covered)), 0)
    return signal
