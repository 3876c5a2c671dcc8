"""Copies with elements in another order, repeated, or left out."""

from __future__ import annotations

from stowgrad.autograd.ops import arrange, join

from .case import Case, rand

CASES = [
    Case("flip", lambda x: arrange.flip(x, (0, 2)), (rand(2, 3, 4),)),
    Case("roll", lambda x: arrange.roll(x, ((0, 1), (1, 3))), (rand(2, 4),)),
    Case("roll", lambda x: arrange.roll(x, ()), (rand(2, 4),), "not at all"),
    Case("repeat", lambda x: arrange.repeat(x, (2, 1, 3)), (rand(2, 3, 1),)),
    Case("repeat", lambda x: arrange.repeat(x.t(), (2, 2)), (rand(2, 3),), "transposed"),
    Case("repeat", lambda x: arrange.repeat(x, (1, 1)), (rand(2, 3),), "once"),
    Case("repeat_interleave", lambda x: arrange.repeat_each(x, 3, 0), (rand(2, 3),)),
    Case("tril", lambda x: arrange.tril(x, -1), (rand(2, 4, 3),)),
    Case("tril", lambda x: arrange.tril(x.mT, 1), (rand(4, 3),), "transposed"),
    Case("triu", lambda x: arrange.triu(x, 1), (rand(2, 3, 4),)),
    Case("constant_pad_nd", lambda x: arrange.constant_pad(x, ((0, 1), (2, 0)), 0.5), (rand(2, 3),)),
    Case("constant_pad_nd", lambda x: arrange.constant_pad(x, ((-1, 1), (2, -1)), 0.0), (rand(3, 3),), "shorter"),
    Case("pad", lambda x: arrange.pad_edges(x, ((1, 2, 1), (2, 0, 2)), "reflect"), (rand(2, 3, 4),), "reflect"),
    Case("pad", lambda x: arrange.pad_edges(x, ((0, 3, 1), (1, 0, 2)), "replicate"), (rand(2, 3),), "replicate"),
    Case("pad", lambda x: arrange.pad_edges(x, ((0, 2, 1), (1, 3, 2)), "circular"), (rand(2, 3),), "circular"),
    Case(
        "pad_backward",
        lambda x: arrange.pad_edges_backward(x, (2, 3), ((1, 2, 1),), "reflect"),
        (rand(2, 6),),
    ),
    Case("stack", lambda x, y, z: join.stack((x, y, z), 1), (rand(2, 3), rand(2, 3), rand(2, 3))),
    Case("stack", lambda x, y: join.stack((x.t(), y), -1), (rand(3, 2), rand(2, 3)), "last"),
]
