"""Hooks and policies that note what they are asked."""

from __future__ import annotations

import stowgrad
from stowgrad.memory import pool
from stowgrad.saved_tensors import PolicyEntry, saved_tensors_hooks


def leaf(size=3):
    """Ones that require grad."""
    return stowgrad.ones(size, requires_grad=True)


def same(value):
    """A hook that changes nothing."""
    return value


class Noting:
    """A pair of hooks that notes what it was called with."""

    def __init__(self, name=""):
        self.name = name
        self.packed = []
        self.unpacked = []

    def pack(self, tensor):
        self.packed.append(tensor)
        return tensor

    def unpack(self, packed):
        self.unpacked.append(packed)
        return packed

    def hooks(self):
        return saved_tensors_hooks(self.pack, self.unpack)


class Handle:
    """What `Recording` keeps."""

    resident_bytes = offloaded_bytes = 0

    def __init__(self, value, names):
        self.policy = " | ".join(names)
        self._array = value.array.copy()

    def load(self):
        array, _ = pool("cpu").lease(self._array.shape, self._array.dtype)
        array[...] = self._array
        return array


class Recording(PolicyEntry):
    """A policy that notes the chain that it stands in."""

    def __init__(self, name, log):
        self.name = name
        self.log = log

    def describe(self):
        return self.name

    def save(self, value, outer):
        names = [self.name, *(policy.name for policy in outer)]
        self.log.append(names)
        return Handle(value, names)

    def shadow(self):
        self.log.append(f"{self.name} shadowed")
