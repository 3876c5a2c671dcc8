"""A step under a memory limit: it runs where its peak fits, and is refused without harm where it does not."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

import stowgrad
from stowgrad.memory import MemoryBudgetError, Storage, events, get_limit, memory_allocated, pool, set_limit

from .gpt import Sizes
from .test_steps import MODES, Training

SIZES = Sizes(layers=3, width=64, heads=2, batch=4, context=64, vocabulary=256, dropout=0.1)


@pytest.fixture(autouse=True)
def no_limit_left(one_thread: None) -> Iterator[None]:
    before = get_limit()
    gc.collect()  # what other tests left must not be there in one measurement and gone in the next
    yield
    set_limit(before)


class HeldPeak(events.Observer):
    """The most bytes that blocks take at any time: what a limit is about."""

    def __init__(self) -> None:
        self.nbytes = 0

    def allocated(self, storage: Storage) -> None:
        self.nbytes = max(self.nbytes, pool("cpu").held_bytes())


def measured_step(training: Training) -> int:
    watch = HeldPeak()
    events.add_observer(watch)
    try:
        training.step()
    finally:
        events.remove_observer(watch)
    return watch.nbytes


@pytest.mark.parametrize("name", ["plain", "disk", "checkpointed"])
def test_a_step_runs_under_its_peak_and_not_under_less(name: str, tmp_path: Path, no_collector: None):
    training = Training(MODES[name], tmp_path, SIZES)
    training.step()
    peak = measured_step(training)
    set_limit(peak)
    training.step()
    base = pool("cpu").held_bytes()
    weights = {name: p.detach().numpy().copy() for name, p in training.model.named_parameters()}
    state = stowgrad.get_rng_state()

    # Half of what a step takes above weights, gradients and states: more than the disk policy has lent to its threads.
    set_limit(peak - (peak - base) // 2)
    with pytest.raises(MemoryBudgetError) as caught:
        training.step()
    assert caught.value.limit == get_limit()
    assert caught.value.smallest_working_limit > caught.value.limit
    assert caught.value.requested <= peak
    stowgrad.utils.clear_frames(caught.value)

    set_limit(None)
    assert pool("cpu").held_bytes() <= base  # gradients may be gone
    for parameter, value in training.model.named_parameters():
        assert value.detach().numpy().tobytes() == weights[parameter].tobytes()
    stowgrad.set_rng_state(state)
    loss = training.step()

    other = Training(MODES["plain"], tmp_path, SIZES)  # the same without a limit in between
    assert [other.step() for _ in range(4)][-1] == loss


def test_following_the_error_leads_to_a_limit_that_works(tmp_path: Path, no_collector: None):
    training = Training(MODES["plain"], tmp_path, SIZES)
    training.step()
    training.optimizer.zero_grad()
    base = pool("cpu").held_bytes()
    set_limit(base)
    for _ in range(200):  # a step gets a little further each time
        try:
            training.step()
            break
        except MemoryBudgetError as error:
            needed = error.smallest_working_limit
            assert needed > (get_limit() or 0)
            stowgrad.utils.clear_frames(error)
        set_limit(needed)
    assert (get_limit() or 0) > base
    training.step()


def test_a_checkpointed_step_runs_where_a_plain_one_does_not(tmp_path: Path, no_collector: None):
    sizes = Sizes(layers=8, width=64, heads=2, batch=4, context=64, vocabulary=64)
    peaks = {}
    for name in ("plain", "checkpointed, disk"):
        training = Training(MODES[name], tmp_path, sizes)
        training.step()
        peaks[name] = measured_step(training)
        del training
    assert peaks["checkpointed, disk"] < 0.75 * peaks["plain"]
    training = Training(MODES["plain"], tmp_path, sizes)
    set_limit((peaks["plain"] + peaks["checkpointed, disk"]) // 2)
    with pytest.raises(MemoryBudgetError) as caught:
        for _ in range(2):
            training.step()
    stowgrad.utils.clear_frames(caught.value)
    del training
    training = Training(MODES["checkpointed, disk"], tmp_path, sizes)
    assert training.step() > training.step()
    assert memory_allocated() <= get_limit()
