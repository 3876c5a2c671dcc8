from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from stowgrad.offload.free_list import FreeList


@given(st.lists(st.one_of(st.integers(1, 20), st.integers(-50, -1)), max_size=80))
def test_ranges_never_overlap_and_all_space_comes_back(program):
    parts = FreeList()
    taken: list[tuple[int, int]] = []
    for step in program:
        if step > 0:
            taken.append((parts.take(step), step))
        elif taken:
            parts.give(*taken.pop(-step % len(taken)))
        ranges = sorted(taken)
        assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(ranges))
        assert parts.taken == sum(size for _, size in taken)
        assert parts.end == max((start + size for start, size in taken), default=0)
    for part in taken:
        parts.give(*part)
    assert parts.end == parts.taken == 0


def test_the_first_hole_that_fits_is_used():
    parts = FreeList()
    starts = [parts.take(10) for _ in range(5)]
    parts.give(starts[1], 10)
    parts.give(starts[3], 10)
    assert parts.take(4) == 10
    assert parts.take(8) == 30
    assert parts.take(6) == 14
