"""What `stowgrad.linalg` offers, a module a subject; some have old names at the top level, too."""

from __future__ import annotations

from . import factorizations, norms, products, solving, spectral

__all__ = ["factorizations", "norms", "products", "solving", "spectral"]
