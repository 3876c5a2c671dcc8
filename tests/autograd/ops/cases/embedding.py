"""Rows of tables."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import embedding

from .case import Case, rand

CASES = [
    Case("embedding", embedding.embedding, (np.array([[1, 0], [3, 1]]), rand(4, 3))),
    Case("embedding", lambda i, w: embedding.embedding(i, w, 1), (np.array([1, 0, 3, 1]), rand(4, 3)), "no gradient"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"embedding_backward"}
