"""Optimizers and learning-rate schedules."""

from __future__ import annotations

from . import lr_scheduler
from .adamw import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
