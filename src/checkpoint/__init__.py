"""Activation checkpointing: recompute in backward instead of keeping."""

from __future__ import annotations

from .checkpoint import checkpoint
from .region import CheckpointError, is_recomputing

__all__ = ["CheckpointError", "checkpoint", "is_recomputing"]
