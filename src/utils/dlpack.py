"""DLPack by PyTorch's path: memory handed to other libraries and taken from them."""

from __future__ import annotations

from ..autograd.creation import from_dlpack, to_dlpack
from ..autograd.dlpack import DLDeviceType

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
