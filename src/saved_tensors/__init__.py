"""What a node keeps for backward, and how: the door, the stack of hooks, and the policies behind it."""

from __future__ import annotations

from .compress import Cast, Compress, Quantize
from .hooks import (
    Handle,
    HookEntry,
    PolicyEntry,
    SavedRecord,
    SavedValue,
    disable_saved_tensors_hooks,
    saved_tensors_hooks,
)
from .modules import Attachment
from .mutation import allow_mutation_on_saved_tensors
from .payload import INTERFACE_VERSION, Payload, Site, Stage
from .policy import Policy, set_default_policy
from .report import PolicyReport, SiteReport
from .sharing import PackedHandle
from .statistics import PolicyStatistics

__all__ = [
    "INTERFACE_VERSION",
    "Attachment",
    "Cast",
    "Compress",
    "Handle",
    "HookEntry",
    "PackedHandle",
    "Payload",
    "Policy",
    "PolicyEntry",
    "PolicyReport",
    "PolicyStatistics",
    "Quantize",
    "SavedRecord",
    "SavedValue",
    "Site",
    "SiteReport",
    "Stage",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "saved_tensors_hooks",
    "set_default_policy",
]
