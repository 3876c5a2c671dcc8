"""Rotary position embedding."""

from __future__ import annotations

from stowgrad.autograd.ops.rotary import rotary_embedding

from .case import Case, rand

CASES = [
    Case("rotary_embedding", rotary_embedding, (rand(2, 3, 4, 6), rand(4, 3), rand(4, 3)), "halves"),
    Case(
        "rotary_embedding",
        lambda x, c, s: rotary_embedding(x, c, s, True),
        (rand(2, 3, 4, 6), rand(2, 1, 4, 3), rand(2, 1, 4, 3)),
        "neighbours",
    ),
    Case(
        "rotary_embedding",
        lambda x, c, s: rotary_embedding(x, c, s, True, True),
        (rand(3, 4, 7), rand(4, 2), rand(4, 2)),
        "a part, back",
    ),
]
