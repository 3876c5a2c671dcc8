"""Activation checkpointing: recompute in backward instead of keeping."""

from __future__ import annotations

from ..autograd.recomputing import is_recomputing, update_state
from .checkpoint import checkpoint, set_checkpoint_debug_enabled, set_checkpoint_early_stop
from .group import GraphExecGroup
from .listing import print_saved
from .modules import CheckpointedModules, checkpoint_every, checkpoint_modules
from .oplog import CheckpointError
from .policies import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    keep_matrix_products,
    keep_names,
    recompute_elementwise,
)
from .selective import checkpoint_name, create_selective_checkpoint_contexts
from .sequential import checkpoint_sequential

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "CheckpointedModules",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "checkpoint",
    "checkpoint_every",
    "checkpoint_modules",
    "checkpoint_name",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "is_recomputing",
    "keep_matrix_products",
    "keep_names",
    "print_saved",
    "recompute_elementwise",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "update_state",
]
