"""What kernels raise."""

from __future__ import annotations

__all__ = ["LinAlgError"]


class LinAlgError(RuntimeError):
    """A matrix without an inverse or a Cholesky factor, or whose eigenvalues were not found."""
