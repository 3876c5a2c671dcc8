"""200 links of y = tanh(y * a + b) on 16 float32 values, y, a and b all needing gradients: what an operation costs.

Shared by the PyTorch and the stowgrad script, which differ in the module they pass. 600 operations forward and 600
backward; backward adds 400 gradients into a and b. Freeing the graph is timed with backward.
"""

from __future__ import annotations

import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

LINKS = 200
OPERATIONS = 3 * LINKS
REPEATS = 300
WARMUP = 30


def _inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, 16).astype(np.float32) for _ in range(3)]


def _reference() -> list[np.ndarray]:
    """Gradients of sum(y) with respect to y0, a and b, in float64."""
    y, a, b = (value.astype(np.float64) for value in _inputs())
    before, after = [], []
    for _ in range(LINKS):
        before.append(y)
        y = np.tanh(y * a + b)
        after.append(y)
    d, d_a, d_b = np.ones(16), np.zeros(16), np.zeros(16)
    for x, t in zip(reversed(before), reversed(after), strict=True):
        d = d * (1 - t * t)
        d_a += d * x
        d_b += d
        d = d * a
    return [d, d_a, d_b]


def _chain(y: Any, a: Any, b: Any) -> Any:
    for _ in range(LINKS):
        y = (y * a + b).tanh()
    return y


def _measure(leaves: list[Any], seed: Any, hooks: AbstractContextManager[Any]) -> dict[str, float]:
    forward, backward = [], []
    with hooks:
        for repeat in range(WARMUP + REPEATS):
            for leaf in leaves:
                leaf.grad = None
            begin = time.perf_counter()
            y = _chain(*leaves)
            middle = time.perf_counter()
            y.backward(seed)
            del y
            end = time.perf_counter()
            if repeat >= WARMUP:
                forward.append(middle - begin)
                backward.append(end - middle)
    f, b = (statistics.median(times) / OPERATIONS * 1e6 for times in (forward, backward))
    return {"forward_us": f, "backward_us": b, "total_us": f + b}


def small_ops(library: Any) -> dict[str, Any]:
    """Microseconds an operation in `library` (torch, or a module with its names), without and with identity hooks."""
    leaves = [library.from_numpy(value).requires_grad_() for value in _inputs()]
    seed = library.ones(16)
    identity = library.autograd.graph.saved_tensors_hooks(lambda saved: saved, lambda packed: packed)
    row = {"plain": _measure(leaves, seed, nullcontext()), "hooks": _measure(leaves, seed, identity)}
    for leaf, expected in zip(leaves, _reference(), strict=True):
        np.testing.assert_allclose(leaf.grad.numpy(), expected, rtol=1e-4, atol=1e-5)
    return row
