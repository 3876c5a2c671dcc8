"""Products of vectors and matrices, as functions of the top level."""

from __future__ import annotations

from typing import Any

from ..ops import linalg as ops
from ..out import into

__all__ = ["matmul"]


def matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    """The matrix product: of vectors, matrices and batches of them, as NumPy's."""
    return ops.matmul(input, other) if out is None else into(out, ops.matmul, input, other)
