"""Codecs: other forms of an array that take less memory."""

from __future__ import annotations

from .bits import PackBits
from .cast import BFloat16
from .compact import Compact
from .host import HostCodec
from .zstd import Zstd

__all__ = ["BFloat16", "Compact", "HostCodec", "PackBits", "Zstd"]
