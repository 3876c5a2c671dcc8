"""Files of tensors and of training runs."""

from __future__ import annotations

from .serialization import load_file, load_metadata, save_file
from .training_state import TrainingState, load_training_state, save_training_state

__all__ = [
    "TrainingState",
    "load_file",
    "load_metadata",
    "load_training_state",
    "save_file",
    "save_training_state",
]
