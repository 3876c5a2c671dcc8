"""Fourier transforms of which PyTorch has no samples, and arguments that don't fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .op_cases import FLOATS, Case, signed

Call = Callable[..., Any]

FREQUENCIES: dict[str, Call] = {
    "even": lambda lib, f: f(6, 0.5, dtype=lib.float64),
    "odd": lambda lib, f: f(7, dtype=lib.float32),
    "one": lambda lib, f: f(1),
    "none": lambda lib, f: f(0),
    "negative": lambda lib, f: f(-1),
}
WRONG: dict[str, tuple[str, Call]] = {
    "no elements": ("fft.fft", lambda lib, x: lib.fft.fft(x[:, :0])),
    "no length": ("fft.fft", lambda lib, x: lib.fft.fft(x, n=0)),
    "negative length": ("fft.irfft", lambda lib, x: lib.fft.irfft(x, n=-1)),
    "no dimension": ("fft.fft", lambda lib, x: lib.fft.fft(x[0, 0])),
    "no such dimension": ("fft.rfft", lambda lib, x: lib.fft.rfft(x, dim=2)),
    "unknown factor": ("fft.ifft", lambda lib, x: lib.fft.ifft(x, norm="unitary")),
    "no tensor": ("fft.fft", lambda lib, x: lib.fft.fft([1.0, 2.0])),
    "twice": ("fft.fftn", lambda lib, x: lib.fft.fftn(x, dim=(0, -2))),
    "too many sizes": ("fft.fftn", lambda lib, x: lib.fft.fftn(x, s=(1, 2, 3))),
    "sizes for other dimensions": ("fft.ifftn", lambda lib, x: lib.fft.ifftn(x, s=(1, 2), dim=(0,))),
    "nothing to transform": ("fft.rfftn", lambda lib, x: lib.fft.rfftn(x, dim=())),
    "nothing to transform back": ("fft.irfftn", lambda lib, x: lib.fft.irfftn(x, dim=())),
    "a complex signal": ("fft.ihfft", lambda lib, x: lib.fft.ihfft(lib.fft.fft(x))),
    "half precision": ("fft.fft", lambda lib, x: lib.fft.fft(x.half())),
    "no shift": ("fft.fftshift", lambda lib, x: lib.fft.fftshift(x, dim=[])),
}
SHORT_TIME: dict[str, Call] = {
    "neither real nor complex": lambda lib, x: lib.stft(x, 4),
    "three dimensions": lambda lib, x: lib.stft(x[None], 4, center=False, return_complex=True),
    "longer than the signal": lambda lib, x: lib.stft(x, 30, center=False, return_complex=True),
    "padding too long": lambda lib, x: lib.stft(x, 30, return_complex=True),
    "no distance": lambda lib, x: lib.stft(x, 4, hop_length=0, return_complex=True),
    "window too long": lambda lib, x: lib.stft(x, 4, win_length=5, return_complex=True),
    "window of another size": lambda lib, x: lib.stft(x, 4, window=x[0], return_complex=True),
    "parts": lambda lib, x: lib.stft(x, 5, window=x[1, :5], return_complex=False),
    "one signal": lambda lib, x: lib.view_as_real(x[0].stft(5, 2, pad_mode="replicate", return_complex=True)),
    "short window": lambda lib, x: lib.stft(x, 6, 2, 3, x[1, 1:4].abs(), False, return_complex=False),
    "both sides": lambda lib, x: lib.stft(x, 6, normalized=True, onesided=False, return_complex=False),
    "constant": lambda lib, x: lib.stft(x, 6, pad_mode="constant", return_complex=False),
}


def _there(lib: Any, x: Any, window: Any = None, **keywords: Any) -> Any:
    return lib.stft(x, 6, 2, window=window, return_complex=True, **keywords)


BACK: dict[str, Call] = {
    "all": lambda lib, x: lib.istft(_there(lib, x), 6, 2),
    "one signal": lambda lib, x: _there(lib, x[0]).istft(6, 2, length=7),
    "window": lambda lib, x: lib.istft(_there(lib, x, x[1, :6].abs()), 6, 2, window=x[1, :6].abs()),
    "longer": lambda lib, x: lib.istft(_there(lib, x), 6, 2, length=20),
    "no centre": lambda lib, x: lib.istft(_there(lib, x, center=False), 6, 2, center=False, normalized=True),
    "both sides": lambda lib, x: lib.istft(_there(lib, x, onesided=False), 6, 2, onesided=False),
    "complex": lambda lib, x: lib.view_as_real(
        lib.istft(_there(lib, x, onesided=False), 6, 2, onesided=False, return_complex=True)
    ),
    "not covered": lambda lib, x: lib.istft(_there(lib, x), 6, 2, window=x[0, :6] * 0),
    "parts": lambda lib, x: lib.istft(lib.view_as_real(_there(lib, x)), 6),
    "distance": lambda lib, x: lib.istft(_there(lib, x), 6, 7),
    "other length": lambda lib, x: lib.istft(_there(lib, x), 8, 2, onesided=True),
    "no windows": lambda lib, x: lib.istft(_there(lib, x)[..., :0], 6, 2),
    "half of the coefficients": lambda lib, x: lib.istft(_there(lib, x), 6, 2, return_complex=True),
}

_X = signed(2, 11)
CASES = [
    *(
        Case(f"fft.{name}", label, lambda lib, c=call, n=name: c(lib, getattr(lib.fft, n)), ())
        for name in ("fftfreq", "rfftfreq")
        for label, call in FREQUENCIES.items()
        if (name, label) != ("rfftfreq", "negative")  # PyTorch has one frequency then
    ),
    *(Case(name, label, call, (_X,), FLOATS) for label, (name, call) in WRONG.items()),
    *(Case("stft", label, call, (_X,), FLOATS) for label, call in SHORT_TIME.items()),
    *(Case("istft", label, call, (_X,), FLOATS) for label, call in BACK.items()),
    Case("fft.fft", "of integers", lambda lib, x: lib.view_as_real(lib.fft.fft(x)), (np.array([1, 2, 4]),)),
    Case("fft.fftn", "over nothing", lambda lib, x: lib.view_as_real(lib.fft.fftn(x, dim=())), (_X,), FLOATS),
    Case("fft.fft2", "a list of dimensions", lambda lib, x: lib.fft.fft2(x, dim=[1, 0]).abs(), (_X,), FLOATS),
    Case("view_as_complex", "odd strides", lambda lib, x: lib.view_as_complex(x[:, :2]).real, (_X,), FLOATS),
]
