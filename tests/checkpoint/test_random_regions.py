"""Random functions, cut into regions in random ways: the same bits as without regions."""

from __future__ import annotations

import functools
from random import Random
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from stowgrad.nn import functional as F

SIDE = 20  # above the size from which small results go another way through dispatch
_rng = np.random.default_rng(3)
VALUES = [_rng.normal(size=(SIDE, SIDE)) * 0.3 for _ in range(3)]


def _half_written(t: Any, w: Any) -> Any:
    h = t * 2.0
    h[: SIDE // 2] = w[: SIDE // 2].sin()
    return h


STEPS = (
    lambda t, w: (t @ w).tanh(),
    lambda t, w: t.sin() * w,
    lambda t, w: F.dropout(t, 0.3) + w,
    lambda t, w: t.t().sin().exp() * 0.1,
    lambda t, w: F.layer_norm(t, (SIDE,)) - w.detach(),
    lambda t, w: F.linear(t, w, w[0]),
    lambda t, w: t.clone().mul_(w).relu_(),
    lambda t, w: t.softmax(0)[:, ::2].repeat(1, 2),
    lambda t, w: sum(part.cos() for part in t.split(SIDE // 2)).repeat(2, 1),
    _half_written,
)
DECISIONS = (*CheckpointPolicy, True, False)


class Cut:
    """A random function, a tree of regions at random; called without regions, it does the same."""

    def __init__(self, draw: Random, depth: int) -> None:
        self.parts: list[Any] = []
        for _ in range(draw.randint(1, 4)):
            below = depth and draw.random() < 0.5
            self.parts.append(Cut(draw, depth - 1) if below else (draw.choice(STEPS), draw.randrange(1, len(VALUES))))
        self.options: dict[str, Any] = {"early_stop": draw.random() < 0.7, "verify": draw.random() < 0.3}
        if draw.random() < 0.4:
            chosen = draw.choices(DECISIONS, k=16)  # by the name of the op, so that both runs agree
            policy = lambda ctx, op, *inputs: chosen[sum(op.encode()) % 16]  # noqa: E731
            self.options["context_fn"] = functools.partial(create_selective_checkpoint_contexts, policy)

    def run(self, t: Any, leaves: list[Any], regions: bool) -> Any:
        for part in self.parts:
            if not isinstance(part, Cut):
                step, which = part
                t = step(t, leaves[which])
            elif regions:
                t = checkpoint(part.run, t, leaves, True, **part.options)
            else:
                t = part.run(t, leaves, False)
        return t


def gradients(cut: Cut, regions: bool, passes: int) -> list[bytes]:
    stowgrad.manual_seed(7)
    leaves = [stowgrad.tensor(values, requires_grad=True) for values in VALUES]
    y = cut.run(leaves[0], leaves, regions)
    loss = (y * y).sum()
    stowgrad.rand(5)
    for number in range(passes):
        loss.backward(retain_graph=number < passes - 1)
    return [b"" if leaf.grad is None else leaf.grad.numpy().tobytes() for leaf in leaves] + [
        y.detach().numpy().tobytes()
    ]


@pytest.mark.parametrize("seed", [*range(60), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(60, 300))])
def test_regions_change_no_bit(seed: int):  # spec 9.5, 9.20, case F7
    draw = Random(seed)
    cut, passes = Cut(draw, 3), draw.randint(1, 2)
    assert gradients(cut, True, passes) == gradients(cut, False, passes)
