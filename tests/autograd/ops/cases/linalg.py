"""Products of matrices."""

from __future__ import annotations

from stowgrad.autograd.ops import linalg, products

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
    Case(
        "einsum", lambda x, y: products.contraction(x, y, (0, 1), (1, 2), (0, 2)), (rand(3, 4), rand(4, 2)), "product"
    ),
    Case("einsum", lambda x, y: products.contraction(x, y, (0, 1), (1, 2), (2, 0)), (rand(3, 4), rand(4, 2)), "turned"),
    Case("einsum", lambda x, y: products.contraction(x, y, (0,), (1,), (1, 0)), (rand(3), rand(4)), "outer"),
    Case("einsum", lambda x, y: products.contraction(x, y, (0, 1), (1, 0), ()), (rand(3, 4), rand(4, 3)), "inner"),
    Case(
        "einsum",
        lambda x, y: products.contraction(x, y, (3, 0, 1, 2), (2, 3, 4, 0), (4, 0, 1)),
        (rand(2, 3, 4, 5), rand(5, 2, 3, 3)),
        "batches",
    ),
    Case(
        "einsum",
        lambda x, y: products.contraction(x, y, (0, 1, 2), (1, 2, 3), (0, 1, 3)),
        (rand(2, 3, 4), rand(3, 4, 2)),
        "batch between",
    ),
    Case(
        "addmm",
        lambda x, a, b: products.add_contraction(x, a, b, (0, 1), (1, 2), (0, 2), 1, 1),
        (rand(3, 2), rand(3, 4), rand(4, 2)),
    ),
    Case(
        "addmm",
        lambda x, a, b: products.add_contraction(x, a, b, (0, 1), (1,), (0,), 0.5, 2.0),
        (rand(1), rand(3, 4), rand(4)),
        "broadcast, scaled",
    ),
    Case("linalg_cross", lambda x, y: products.cross(x, y, 1), (rand(2, 3), rand(2, 3))),
    Case("linalg_cross", lambda x, y: products.cross(x, y, 0), (rand(3, 1, 2), rand(3, 4, 1)), "broadcast"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"linear_backward"}
