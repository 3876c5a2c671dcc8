"""Training with numbers of 16 bits."""

from __future__ import annotations

from ..autograd.autocast_mode import autocast, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "is_autocast_available"]
