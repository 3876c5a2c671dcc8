"""Files of tensors and of training runs, and small helpers."""

from __future__ import annotations

from . import checkpoint, data, dlpack
from .frames import clear_frames
from .serialization import load_file, load_metadata, save_file
from .training_state import TrainingState, load_training_state, save_training_state

__all__ = [
    "TrainingState",
    "checkpoint",
    "clear_frames",
    "data",
    "dlpack",
    "load_file",
    "load_metadata",
    "load_training_state",
    "save_file",
    "save_training_state",
]
