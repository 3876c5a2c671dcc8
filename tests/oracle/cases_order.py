"""Reductions, sorting and counting of which PyTorch has no samples with gradients, and arguments that don't fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .op_cases import FLOATS, Case, signed, smooth

Call = Callable[..., Any]

DIMS: dict[str, dict[str, Any]] = {
    "all": {},
    "first": {"dim": 0},
    "last, keepdim": {"dim": -1, "keepdim": True},
    "no such dimension": {"dim": 3},
}
WHOLE: dict[str, Call] = {
    "count_nonzero": lambda lib, x: lib.count_nonzero(lib.floor(x)),
    "count_nonzero one": lambda lib, x: lib.floor(x).count_nonzero(1),
    "count_nonzero two": lambda lib, x: lib.floor(x).count_nonzero((0, 2)),
    "all two": lambda lib, x: (x > 0.5).all((0, 1)),
    "any two": lambda lib, x: (x > 2).any((0, 1), True),
    "all uint8": lambda lib, x: lib.floor(x).to(lib.uint8).all(0),
    "any uint8": lambda lib, x: lib.floor(x).to(lib.uint8).any(),
    "masked.argmax": lambda lib, x: lib.masked.argmax(x, 1, mask=x < 1.5),
    "masked.argmin": lambda lib, x: lib.masked.argmin(x, 1, keepdim=True, mask=x > 1),
    "masked.argmin all": lambda lib, x: lib.masked.argmin(x),
    "max too many": lambda lib, x: x.max(7),
    "amax twice": lambda lib, x: x.amax((0, -3)),
    "amax nothing": lambda lib, x: x[:0].amax(),
    "amin nothing along": lambda lib, x: x[:0].amin(0),
    "argmax nothing": lambda lib, x: x[:, :0].argmax(1),
    "mean integers": lambda lib, x: lib.floor(x).to(lib.int64).mean(),
    "var integers": lambda lib, x: lib.floor(x).to(lib.int64).var(),
    "sum_to_size no way": lambda lib, x: x.sum_to_size(3, 2),
}
ORDER: dict[str, Call] = {
    "argsort": lambda lib, x: lib.argsort(x),
    "argsort first, descending": lambda lib, x: x.argsort(0, True),
    "argsort ties": lambda lib, x: lib.floor(x).argsort(dim=1, stable=True),
    "argsort ties, descending": lambda lib, x: lib.argsort(lib.floor(x), dim=2, descending=True, stable=True),
    "argsort no such dimension": lambda lib, x: x.argsort(3),
    "sort ties": lambda lib, x: lib.sort(lib.floor(x), dim=1, stable=True),
    "sort ties, descending": lambda lib, x: lib.sort(lib.floor(x), dim=1, descending=True, stable=True),
    "topk too many": lambda lib, x: x.topk(5),
    "topk none": lambda lib, x: x.topk(0),
    "kthvalue too many": lambda lib, x: x.kthvalue(5),
    "kthvalue zeroth": lambda lib, x: x.kthvalue(0),
    "median nothing": lambda lib, x: x[:0].median(),
    "median nothing along": lambda lib, x: x[:0].median(0),
    "mode ties": lambda lib, x: lib.floor(x).mode(1),
    "cummax ties": lambda lib, x: lib.floor(x).cummax(1),
    "cummin ties": lambda lib, x: lib.floor(x).cummin(0),
    "quantile above 1": lambda lib, x: x.quantile(1.5),
    "quantile unknown": lambda lib, x: x.quantile(0.5, interpolation="cubic"),
    "quantile of nothing": lambda lib, x: x[:0].quantile(0.5),
    "nanquantile matrix": lambda lib, x: x.nanquantile(x[0]),
    "diff negative": lambda lib, x: x.diff(-1),
    "diff nothing": lambda lib, x: x[0, 0, 0].diff(),
    "gradient short": lambda lib, x: lib.gradient(x[:1]),
    "trapezoid mismatch": lambda lib, x: lib.trapezoid(x, x[0, 0, :2]),
    "cdist vectors": lambda lib, x: lib.cdist(x[0, 0], x[0, 0]),
    "cdist columns": lambda lib, x: lib.cdist(x, x[..., :2]),
    "cdist negative": lambda lib, x: lib.cdist(x, x, -1.0),
    "pdist": lambda lib, x: lib.pdist(x[0]),
    "pdist one": lambda lib, x: lib.pdist(x[0], 1.0),
    "pdist vector": lambda lib, x: lib.pdist(x[0, 0]),
}
COUNTS: dict[str, Call] = {
    "bincount": lambda lib, x: lib.floor(x).to(lib.int64).reshape(-1).bincount(),
    "bincount least": lambda lib, x: lib.bincount(lib.floor(x).to(lib.int64).reshape(-1), minlength=9),
    "bincount weights": lambda lib, x: lib.bincount(lib.floor(x).to(lib.int64)[0, 0], x[0, 0].detach()),
    "bincount matrix": lambda lib, x: lib.bincount(lib.floor(x).to(lib.int64)),
    "bincount negative": lambda lib, x: lib.bincount(-lib.floor(x).to(lib.int64).reshape(-1)),
    "unique": lambda lib, x: lib.unique(lib.floor(x.detach())),
    "unique everything": lambda lib, x: lib.floor(x.detach()).unique(return_inverse=True, return_counts=True),
    "unique rows": lambda lib, x: lib.unique(lib.floor(x.detach())[0], return_inverse=True, return_counts=True, dim=0),
    "unique columns": lambda lib, x: lib.floor(x.detach()).unique(dim=2),
    "unique_consecutive": lambda lib, x: lib.floor(x.detach()).unique_consecutive(
        return_inverse=True, return_counts=True
    ),
    "unique_consecutive rows": lambda lib, x: lib.unique_consecutive(lib.floor(x.detach()), return_counts=True, dim=1),
    "searchsorted": lambda lib, x: lib.searchsorted(x.sort()[0], x),
    "searchsorted vector": lambda lib, x: lib.searchsorted(x[0, 0].sort()[0], x, right=True),
    "searchsorted side": lambda lib, x: lib.searchsorted(x[0, 0].sort()[0], x, side="right", out_int32=True),
    "searchsorted number": lambda lib, x: lib.searchsorted(x[0, 0].sort()[0], 1),
    "searchsorted sorter": lambda lib, x: lib.searchsorted(x, x, sorter=x.argsort()),
    "searchsorted opposites": lambda lib, x: lib.searchsorted(x, x, side="left", right=True),
    "searchsorted shapes": lambda lib, x: lib.searchsorted(x, x[:1, :2]),
    "isin": lambda lib, x: lib.isin(lib.floor(x), lib.tensor([1.0, 5.0])),
    "isin invert": lambda lib, x: lib.isin(lib.floor(x), lib.floor(x)[0, 0, :2], invert=True),
    "isin number": lambda lib, x: lib.isin(lib.floor(x), 2),
    "isin nothing": lambda lib, x: lib.isin(x, x[:0]),
    "bucketize": lambda lib, x: lib.bucketize(x, lib.tensor([0.5, 1.0, 2.0])),
    "bucketize right": lambda lib, x: lib.bucketize(x, x[0, 0].sort()[0], right=True),
    "bucketize matrix": lambda lib, x: lib.bucketize(x, x[0]),
}
FLOATING: dict[str, Call] = {
    "histc": lambda lib, x: x.detach().histc(5),
    "histc range": lambda lib, x: lib.histc(x.detach(), bins=4, min=0.5, max=2),
    "histc constant": lambda lib, x: lib.histc(x.detach() * 0, bins=4),
    "histc backwards": lambda lib, x: lib.histc(x.detach(), bins=4, min=2, max=1),
    "histogram": lambda lib, x: lib.histogram(x.detach(), 5),
    "histogram density": lambda lib, x: lib.histogram(x.detach(), 4, range=(0.5, 2.0), density=True),
    "histogram edges": lambda lib, x: x.detach().histogram(x.detach()[0, 0].sort()[0], weight=x.detach()),
    "var too few": lambda lib, x: x[:, :1].var(1, correction=0),
    "cov three dimensions": lambda lib, x: lib.cov(x),
    "cov weights": lambda lib, x: lib.cov(x[0], fweights=x[0, 0]),
}


def _cases(calls: dict[str, Call], inputs: np.ndarray[Any, Any], **keywords: Any) -> list[Case]:
    """A case of each call; what comes after the first word of its key is the label."""
    return [Case(*(*key.split(" ", 1), "")[:2], call, (inputs,), **keywords) for key, call in calls.items()]


CASES = [
    *[
        Case(name, label, lambda lib, x, n=name, k=keywords: getattr(x > 1, n)(**k), (smooth(2, 3, 4),))
        for name in ("all", "any")
        for label, keywords in DIMS.items()
    ],
    *[
        Case("argmin", label, lambda lib, x, k=keywords: x.argmin(**k), (smooth(2, 3, 4),))
        for label, keywords in DIMS.items()
    ],
    Case("argmin", "ties", lambda lib, x: (x * 0).argmin(1), (smooth(3, 4),), FLOATS),
    *_cases(WHOLE, smooth(2, 3, 4), dtypes=FLOATS),
    *_cases(ORDER, smooth(2, 3, 4), dtypes=FLOATS),
    *_cases(COUNTS, smooth(2, 3, 4), dtypes=FLOATS),
    *_cases(FLOATING, signed(2, 3, 4), dtypes=FLOATS),
]
