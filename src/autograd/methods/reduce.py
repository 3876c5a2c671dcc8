"""Reductions, scans, sorting and statistics, as methods."""

from __future__ import annotations

from typing import Any

from .. import inplace
from ..functions import counting, distances, scan, soft, sorting, statistics
from ..functions import reduce as functions
from ..ops import scan as ops
from ..record import normalize_dim


class ReduceMethods:
    """What folds dimensions."""

    __slots__ = ()

    all = functions.all
    amax = functions.amax
    amin = functions.amin
    aminmax = functions.aminmax
    any = functions.any
    argmax = functions.argmax
    argmin = functions.argmin
    count_nonzero = functions.count_nonzero
    logsumexp = functions.logsumexp
    max = functions.max
    mean = functions.mean
    min = functions.min
    nanmean = functions.nanmean
    nansum = functions.nansum
    prod = functions.prod
    sum = functions.sum
    sum_to_size = functions.sum_to_size
    dist = distances.dist
    trace = functions.trace

    corrcoef = statistics.corrcoef
    cov = statistics.cov
    std = statistics.std
    var = statistics.var

    log_softmax = soft.log_softmax
    softmax = soft.softmax


class OrderMethods:
    """What works along one dimension: scans, sorting, selecting, counting."""

    __slots__ = ()

    _array: Any

    cummax = scan.cummax
    cummin = scan.cummin
    cumprod = scan.cumprod
    cumsum = scan.cumsum
    diff = scan.diff
    logcumsumexp = scan.logcumsumexp

    argsort = sorting.argsort
    kthvalue = sorting.kthvalue
    median = sorting.median
    mode = sorting.mode
    msort = sorting.msort
    nanmedian = sorting.nanmedian
    nanquantile = sorting.nanquantile
    quantile = sorting.quantile
    sort = sorting.sort
    topk = sorting.topk

    bincount = counting.bincount
    histc = counting.histc
    histogram = counting.histogram
    unique = counting.unique
    unique_consecutive = counting.unique_consecutive

    def cumsum_(self, dim: int, *, dtype: Any = None) -> Any:
        """Take the running sum along a dimension in place; returns the tensor."""
        return inplace.op_(ops.cumsum, 0, self, normalize_dim("cumsum", dim, self._array.ndim), dtype, False)

    def cumprod_(self, dim: int, *, dtype: Any = None) -> Any:
        """Take the running product along a dimension in place; returns the tensor."""
        return inplace.op_(ops.cumprod, 0, self, normalize_dim("cumprod", dim, self._array.ndim))
