"""Products of matrices, by cuBLAS."""

from __future__ import annotations

import cupy
import numpy as np

from .launch import Array, is_bfloat16, kernel

__all__ = [
    "matmul",
]


@kernel
def matmul(a: Array, b: Array, out: Array) -> None:
    """``out = a @ b`` with NumPy's rules for vectors, matrices and broadcast batches of matrices."""
    if not is_bfloat16(out) or max(a.ndim, b.ndim) <= 2:
        cupy.matmul(a, b, out=out)
    else:  # CuPy has no batched product of bfloat16
        cupy.copyto(out, cupy.matmul(a.astype(np.float32), b.astype(np.float32)), casting="unsafe")


def product(a: Array, b: Array) -> Array:
    """``a @ b`` of batches of matrices with the same leading axes, in scratch."""
    out = cupy.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    matmul(a, b, out)
    return out
