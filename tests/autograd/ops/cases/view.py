"""Views by dimensions of size 1, diagonals, windows and strides, and copies with such a part replaced."""

from __future__ import annotations

from stowgrad.autograd.ops import strided, view

from .case import Case, rand

CASES = [
    Case("squeeze", lambda x: view.squeeze(x, (0, 2)), (rand(1, 3, 1),)),
    Case("unsqueeze", lambda x: view.unsqueeze(x, 1), (rand(2, 3),)),
    Case("diagonal", lambda x: view.diagonal(x, 1, 0, 2), (rand(3, 2, 4),)),
    Case("diagonal", lambda x: view.diagonal(x, -4, -2, -1), (rand(3, 4),), "outside"),
    Case("diagonal_backward", lambda x: view.diagonal_backward(x, (3, 2, 4), -1, 0, 2), (rand(2, 2),)),
    Case("unfold", lambda x: view.unfold(x, 1, 3, 1), (rand(2, 6),), "overlapping"),
    Case("unfold", lambda x: view.unfold(x, 0, 2, 3), (rand(7, 2),), "with gaps"),
    Case("unfold_backward", lambda x: view.unfold_backward(x, (6,), 0, 4, 1), (rand(3, 4),)),
    Case("as_strided", lambda x: x.as_strided((3, 3), (1, 2), 1), (rand(3, 4),), "overlapping"),
    Case("as_strided", lambda x: x.t()[1].as_strided((2, 2), (4, 4)), (rand(3, 4),), "of a view"),
    Case("as_strided", lambda x: x.expand(4, 3).as_strided((2, 2), (0, 1)), (rand(3),), "of an expanded tensor"),
    Case(
        "as_strided_backward",
        lambda x: strided.restride(x, ((2, 3), (1, 1), 0), ((3, 2), (1, 3), -1)),
        (rand(2, 3),),
    ),
    Case("slice_scatter", lambda x, y: x.slice_scatter(y, 1, 1, None, 2), (rand(2, 5), rand(2, 2))),
    Case("select_scatter", lambda x, y: x.select_scatter(y, 1, -2), (rand(2, 5), rand(2))),
    Case("diagonal_scatter", lambda x, y: x.diagonal_scatter(y, -1), (rand(4, 3), rand(3))),
    Case("as_strided_scatter", lambda x, y: x.as_strided_scatter(y, (2, 2), (1, 4), 3), (rand(3, 4), rand(2, 2))),
]
NOT_DIFFERENTIABLE = {"view_dtype"}
