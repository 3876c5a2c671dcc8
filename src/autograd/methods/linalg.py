"""Products of matrices, as methods."""

from __future__ import annotations

from ..functions import linalg as functions


class LinalgMethods:
    """Products of vectors and matrices."""

    __slots__ = ()

    matmul = functions.matmul
