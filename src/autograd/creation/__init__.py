"""Making tensors: from data, filled, counted, random."""

from __future__ import annotations

from .data import as_tensor, asarray, from_numpy, frombuffer, scalar_tensor, tensor
from .drawn import rand, rand_like, randint, randint_like, randn, randn_like, randperm
from .exchanged import from_dlpack, to_dlpack
from .filled import (
    empty,
    empty_like,
    empty_permuted,
    empty_strided,
    eye,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from .options import contiguous_format, get_default_device, preserve_format, set_default_device, strided
from .ranges import arange, linspace, logspace
from .windows import bartlett_window, blackman_window, hamming_window, hann_window, kaiser_window

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "bartlett_window",
    "blackman_window",
    "contiguous_format",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eye",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "get_default_device",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "preserve_format",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "scalar_tensor",
    "set_default_device",
    "strided",
    "tensor",
    "to_dlpack",
    "zeros",
    "zeros_like",
]
