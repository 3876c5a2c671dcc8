"""PyTorch's path to `stowgrad.checkpoint`: the same objects."""

from __future__ import annotations

from ..checkpoint import CheckpointError, checkpoint, is_recomputing

__all__ = ["CheckpointError", "checkpoint", "is_recomputing"]
