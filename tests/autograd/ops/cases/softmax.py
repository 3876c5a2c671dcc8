"""Soft-max, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from stowgrad.autograd.ops import softmax

from .case import Case, rand

CASES = [
    Case("softmax", lambda x: softmax.softmax(x, -1), (rand(3, 5),), "last"),
    Case("softmax", lambda x: softmax.softmax(x, 0), (rand(3, 5),), "first"),
    Case("log_softmax", lambda x: softmax.log_softmax(x, -1), (rand(3, 5),), "last"),
    Case("log_softmax", lambda x: softmax.log_softmax(x, 1), (rand(3, 5, 2),), "middle"),
    Case("logsumexp", lambda x: softmax.logsumexp(x, 1), (rand(3, 5, 2),), "middle"),
    Case("logsumexp", lambda x: softmax.logsumexp(x, (0, 2), True), (rand(3, 5, 2),), "two, keepdim"),
    Case("logsumexp", softmax.logsumexp, (rand(3, 5),), "all"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"softmax_backward", "log_softmax_backward", "logsumexp_backward"}
