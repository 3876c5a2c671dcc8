"""Short-time Fourier transforms, as methods."""

from __future__ import annotations

from ..functions import spectrum as functions


class SpectrumMethods:
    """The short-time Fourier transform and its inverse."""

    __slots__ = ()

    istft = functions.istft
    stft = functions.stft
