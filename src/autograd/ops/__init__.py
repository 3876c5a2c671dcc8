"""The derivative table: one record an op, a file a family."""

from __future__ import annotations

__all__: list[str] = []
