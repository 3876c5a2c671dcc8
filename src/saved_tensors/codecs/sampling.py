"""Asking a sample whether a codec pays, and remembering the answer for a while."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..payload import Site, as_bytes
from .host import HostArray

SAMPLE_BYTES = 64 << 10
_SAMPLE_PIECES = 4
# A site's answer is asked for again after so many values: zeros come and go while a model trains.
_ASK_AGAIN_AFTER = 32
# More answers than these are forgotten: code that is made while the program runs has no end of call sites.
_MOST_ANSWERS = 10_000


class Answers:
    """What samples have said, for each call site and dtype."""

    def __init__(self) -> None:
        self._answers: dict[tuple[Site, str], tuple[bool, int]] = {}

    def pays(self, array: HostArray, site: Site, ask: Callable[[HostArray], bool]) -> bool:
        """The remembered answer, or that of ``ask``, given some 64 KiB of the array's bytes."""
        key = (site, str(array.dtype))
        pays, uses = self._answers.get(key, (False, _ASK_AGAIN_AFTER))
        if uses >= _ASK_AGAIN_AFTER:
            pays, uses = ask(_sample(array)), 0
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
        self._answers[key] = (pays, uses + 1)
        return pays

    def was_wrong(self, array: HostArray, site: Site) -> None:
        """The sample misled: don't try again for a while."""
        self._answers[site, str(array.dtype)] = (False, 0)


def _sample(array: HostArray) -> HostArray:
    """Some 64 KiB of an array's bytes, from several places of it."""
    if array.nbytes <= SAMPLE_BYTES:
        return as_bytes(np.ascontiguousarray(array))
    count = SAMPLE_BYTES // _SAMPLE_PIECES // array.itemsize
    step = (array.size - count) // (_SAMPLE_PIECES - 1)
    flat = array.reshape(-1) if array.flags.c_contiguous else array.flat
    return as_bytes(np.concatenate([flat[at * step : at * step + count] for at in range(_SAMPLE_PIECES)]))
