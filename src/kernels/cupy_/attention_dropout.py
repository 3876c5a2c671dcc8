"""Which probabilities of attention are dropped: drawn from a counter, so that any part can be drawn again.

32 random bits decide an element's fate: those of its place in the matrix of all scores.
"""

from __future__ import annotations

import cupy
import numpy as np

from ..numpy_.attention_dropout import attention_counter_steps
from .launch import Array, kernel
from .philox import PARAMETERS, PHILOX, arguments

__all__ = ["attention_counter_steps", "attention_dropped"]

# place: of an element in the (B, H, T, S) matrix; four of them share a step of the counter.
_DRAW = """
    unsigned int words[4];
    random_words(key, low, high, (unsigned long long)(place / 4), words);
    bool drop = words[place % 4] < threshold;
"""
_PLACE = """
    long long column = (long long)i % shown, rest = (long long)i / shown;
    long long row = rest % rows, member = rest / rows % group, pair = first_pair + rest / rows / group;
    long long head = pair % heads * group + member, batch = pair / heads;
    long long place = ((batch * heads * group + head) * all_rows + first_row + row) * keys + column;
"""
_DROP = cupy.ElementwiseKernel(
    "int64 shown, int64 keys, int64 rows, int64 all_rows, int64 first_row, int64 group, int64 heads, int64 first_pair,"
    f" uint64 threshold, {PARAMETERS}",
    "T score",
    f"{_PLACE} {_DRAW} if (drop) score = (T)0.0f",
    "stowgrad_attention_drop",
    preamble=PHILOX,
)
_DROPPED = cupy.ElementwiseKernel(
    f"uint64 threshold, {PARAMETERS}",
    "bool dropped",
    f"long long place = (long long)i; {_DRAW} dropped = drop",
    "stowgrad_attention_dropped",
    preamble=PHILOX,
)


def threshold_of(p: float) -> np.uint64:
    """The words below it are dropped: none for 0, all for 1."""
    return np.uint64(round(min(max(p, 0.0), 1.0) * 2**32))


def drop_scores(
    scores: Array,
    *,
    keys: int,
    rows: int,
    all_rows: int,
    first_row: int,
    group: int,
    heads: int,
    first_pair: int,
    p: float,
    key: int,
    counter: int,
) -> None:
    """Put 0 where ``scores``, (pairs of batch and head of k, rows of the group, first keys), are dropped.

    Args:
        scores: of ``rows`` rows from ``first_row`` on, for each of the ``group`` heads that share one of k.
        keys, all_rows: the sizes of the whole matrix.
        heads: of k.
        first_pair: the number of the first pair.
    """
    sizes = (scores.shape[2], keys, rows, all_rows, first_row, group, heads, first_pair)
    _DROP(*sizes, threshold_of(p), *arguments(key, counter), scores)


@kernel
def attention_dropped(out: Array, *, p: float, key: int, counter: int) -> None:
    """Fill ``out``, bool (B, H, T, S): True where `attention` of that size drops a probability."""
    if out.size:
        _DROPPED(threshold_of(p), *arguments(key, counter), out)
