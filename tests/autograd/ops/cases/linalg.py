"""Products of matrices."""

from __future__ import annotations

from stowgrad.autograd.ops import linalg

from .case import Case, rand

CASES = [
    Case("matmul", linalg.matmul, (rand(3, 4), rand(4, 2)), "matrices"),
    Case("matmul", linalg.matmul, (rand(4), rand(4)), "vectors"),
    Case("matmul", linalg.matmul, (rand(3, 4), rand(4)), "matrix, vector"),
    Case("matmul", linalg.matmul, (rand(4), rand(4, 3)), "vector, matrix"),
    Case("matmul", linalg.matmul, (rand(2, 1, 3, 4), rand(5, 4, 2)), "batches"),
    Case("matmul", linalg.matmul, (rand(4), rand(2, 4, 3)), "vector, batch"),
    Case("matmul", linalg.matmul, (rand(2, 3, 4), rand(4)), "batch, vector"),
    Case("linear", linalg.linear, (rand(2, 3, 4), rand(5, 4), rand(5)), "bias"),
    Case("linear", linalg.linear, (rand(3, 4), rand(5, 4)), "no bias"),
    Case("linear", linalg.linear, (rand(4), rand(5, 4), rand(5)), "one row"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"linear_backward"}
