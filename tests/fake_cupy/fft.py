"""The double's Fourier transforms: they have no ``out``."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import _device, host, ndarray


def _returning(function: Any) -> Any:
    def run(a: ndarray, n: int | None = None, axis: int = -1, norm: str | None = None) -> ndarray:
        return _device(function(host(a), n, axis, norm))

    return run


fft = _returning(np.fft.fft)
ifft = _returning(np.fft.ifft)
rfft = _returning(np.fft.rfft)
irfft = _returning(np.fft.irfft)
