"""Rows of tables."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import embedding, embedding_bag

from .case import Case, apart, rand

_INDICES, _STARTS = np.array([1, 0, 3, 1, 2, 1]), np.array([0, 2, 2, 5, 6])

CASES = [
    Case("embedding", embedding.embedding, (np.array([[1, 0], [3, 1]]), rand(4, 3))),
    Case("embedding", lambda i, w: embedding.embedding(i, w, 1), (np.array([1, 0, 3, 1]), rand(4, 3)), "no gradient"),
    Case(
        "embedding_bag",
        embedding_bag.embedding_bag,
        (_INDICES, rand(4, 3), _STARTS, rand(6)),
        "factors",
    ),
    Case("embedding_bag", embedding_bag.embedding_bag, (_INDICES, rand(4, 3), _STARTS)),
    Case(
        "embedding_bag_max",
        lambda i, w, s: embedding_bag.embedding_bag_max(i, w, s, 2),
        (_INDICES, apart(4, 3), _STARTS),
    ),
]
NOT_DIFFERENTIABLE = {"bag_rows", "index_counts"}
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"embedding_backward", "embedding_bag_backward"}
