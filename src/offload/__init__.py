"""Policies that move what was saved for backward: to host memory, to disk."""

from __future__ import annotations

from .disk import save_on_disk
from .host import save_on_cpu
from .places import Offload

__all__ = ["Offload", "save_on_cpu", "save_on_disk"]
