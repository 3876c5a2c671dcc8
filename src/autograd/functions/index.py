"""Choosing elements by indices and masks, and scattering into them."""

from __future__ import annotations

__all__: list[str] = []
