"""Codecs: other forms of an array that take less memory."""

from __future__ import annotations

from .bits import PackBits
from .cast import BFloat16, Float16
from .compact import Compact
from .constant import Constant
from .host import HostCodec
from .narrow import NarrowIntegers
from .nonzeros import NonZeros
from .quantize import Quantizer
from .zstd import Zstd

__all__ = [
    "BFloat16",
    "Compact",
    "Constant",
    "Float16",
    "HostCodec",
    "NarrowIntegers",
    "NonZeros",
    "PackBits",
    "Quantizer",
    "Zstd",
]
