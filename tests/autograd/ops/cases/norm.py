"""Normalisation."""

from __future__ import annotations

from stowgrad.autograd.ops import norm

from .case import Case, rand

CASES = [
    Case("native_layer_norm", lambda x, w, b: norm.layer_norm(x, (4,), w, b), (rand(2, 3, 4), rand(4), rand(4))),
    Case("native_layer_norm", lambda x: norm.layer_norm(x, (3, 4)), (rand(2, 3, 4),), "plain, two dimensions"),
    Case("native_layer_norm", lambda x, w, b: norm.layer_norm(x, (4,), w, b), (rand(1, 4), rand(4), rand(4)), "a row"),
    Case("native_layer_norm", lambda x, w: norm.layer_norm(x, (4,), w), (rand(3, 4), rand(4)), "no bias"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"native_layer_norm_backward"}
