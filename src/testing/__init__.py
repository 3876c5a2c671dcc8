"""Tests for what users write themselves: see `PolicyConformance`."""

from __future__ import annotations

from .conformance import PolicyConformance

__all__ = ["PolicyConformance"]
