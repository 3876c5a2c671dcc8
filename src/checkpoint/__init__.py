"""Activation checkpointing: values dropped after forward and computed again in backward."""

from __future__ import annotations

__all__: list[str] = []
