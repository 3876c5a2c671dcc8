"""The loader: its batches, its threads, and where it is."""

from __future__ import annotations

import gc
import itertools
import json
import threading
import time
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from stowgrad.utils.data import workers as data_workers


class Numbers(Dataset[int]):
    """Samples that are their numbers; counts how often it is asked."""

    def __init__(self, size: int, fail_at: int | None = None, delay: float = 0.0) -> None:
        self.size, self.fail_at, self.delay = size, fail_at, delay
        self.asked = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        with self._lock:
            self.asked += 1
        if self.delay:
            time.sleep(self.delay)
        if index == self.fail_at:
            raise ValueError(f"sample {index} is bad")
        return index


class Stream(IterableDataset[int]):
    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return iter(range(first, self.size, step))


def lists(loader: Any) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


def data_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("stowgrad-data")]


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    end = time.monotonic() + 10
    while data_threads() and time.monotonic() < end:
        time.sleep(0.005)
    assert data_threads() == []


WORKERS = pytest.mark.parametrize("num_workers", [0, 1, 3])


@WORKERS
def test_batches(num_workers: int):
    data = Numbers(10)
    assert lists(DataLoader(data, 4, num_workers=num_workers)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert lists(DataLoader(data, 4, drop_last=True, num_workers=num_workers)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(DataLoader(data, None, num_workers=num_workers)) == list(range(10))
    assert lists(DataLoader(data, batch_sampler=[[3, 1], [2]], num_workers=num_workers)) == [[3, 1], [2]]
    assert lists(DataLoader(data, 2, sampler=[5, 4, 3], num_workers=num_workers)) == [[5, 4], [3]]
    assert list(DataLoader(data, 5, collate_fn=sum, num_workers=num_workers)) == [10, 35]
    assert lists(DataLoader(Numbers(0), 4, num_workers=num_workers)) == []
    assert [len(DataLoader(data, size, drop_last=last)) for size, last in ((4, False), (4, True))] == [3, 2]


@WORKERS
def test_shuffling_is_named_by_the_seed(num_workers: int):
    orders = []
    for _ in range(2):
        stowgrad.manual_seed(3)
        loader = DataLoader(Numbers(20), 6, shuffle=True, num_workers=num_workers)
        orders.append([list(itertools.chain(*lists(loader))) for _ in range(2)])
    assert orders[0] == orders[1]
    assert orders[0][0] != orders[0][1]
    assert sorted(orders[0][0]) == list(range(20))


def test_order_and_draws_do_not_depend_on_the_number_of_workers():
    class Noisy(Numbers):
        def __getitem__(self, index: int) -> Any:
            return stowgrad.rand(2) + index

    found = []
    for workers in (1, 2, 5):
        generator = stowgrad.Generator().manual_seed(1)
        loader = DataLoader(Noisy(13), 3, shuffle=True, num_workers=workers, generator=generator)
        found.append(lists(loader) + lists(loader))
    assert found[0] == found[1] == found[2]
    flat = np.concatenate([np.array(batch).ravel() for batch in found[0]])
    assert len(set((flat % 1).tolist())) == len(flat)


@pytest.mark.parametrize("num_workers", [0, 2, 4])
def test_streams(num_workers: int):
    loader = DataLoader(Stream(11), 2, num_workers=num_workers)
    assert sorted(itertools.chain(*lists(loader))) == list(range(11))
    assert sorted(DataLoader(Stream(11), None, num_workers=num_workers)) == list(range(11))
    loader = DataLoader(Stream(11), 4, drop_last=True, num_workers=num_workers)
    assert all(len(batch) == 4 for batch in lists(loader))
    with pytest.raises(TypeError, match="len"):
        len(loader)


def test_what_is_fetched_ahead_is_bounded():
    data = Numbers(100)
    iterator = iter(DataLoader(data, 2, num_workers=2, prefetch_factor=3))
    next(iterator)
    time.sleep(0.1)
    assert data.asked <= 2 * (1 + 2 * 3)
    del iterator


# -- the end of threads ------------------------------------------------------------------------------------------------


def test_threads_end_with_the_iteration():
    loader = DataLoader(Numbers(10), 2, num_workers=3)
    assert data_threads() == []
    lists(loader)
    assert data_threads() == []


def test_threads_end_when_the_loop_is_left():
    loader = DataLoader(Numbers(1000), 2, num_workers=3)
    for _ in loader:
        assert len(data_threads()) == 3
        break
    del _
    # the fixture waits for them


def test_threads_end_without_the_collector():
    gc.disable()
    try:
        iterator = iter(DataLoader(Numbers(1000), 2, num_workers=2))
        next(iterator)
        del iterator
        end = time.monotonic() + 10
        while data_threads() and time.monotonic() < end:
            time.sleep(0.005)
        assert data_threads() == []
    finally:
        gc.enable()


def test_an_exception_comes_at_its_batch_with_its_traceback():
    iterator = iter(DataLoader(Numbers(10, fail_at=5), 2, num_workers=2))
    assert next(iterator).tolist() == [0, 1]
    assert next(iterator).tolist() == [2, 3]
    with pytest.raises(ValueError, match="sample 5 is bad") as caught:
        next(iterator)
    assert "__getitem__" in "".join(traceback.format_tb(caught.value.__traceback__))
    assert caught.value.__notes__ == ["in DataLoader worker 0, at batch 2"]
    assert data_threads() == []
    with pytest.raises(StopIteration):
        next(iterator)


def test_a_worker_that_cannot_start():
    def fail(number: int) -> None:
        raise OSError(f"worker {number} finds no file")

    with pytest.raises(OSError, match="finds no file"):
        lists(DataLoader(Numbers(4), 2, num_workers=2, worker_init_fn=fail))


def test_what_a_worker_knows():
    seen: dict[int, Any] = {}

    def look(number: int) -> None:
        seen[number] = get_worker_info()

    data = Numbers(8)
    lists(DataLoader(data, 2, num_workers=2, worker_init_fn=look))
    assert sorted(seen) == [0, 1]
    assert [seen[number].num_workers for number in seen] == [2, 2]
    assert seen[0].dataset is data
    assert seen[1].seed == seen[0].seed + 1
    assert get_worker_info() is None


def test_a_time_limit():
    loader = DataLoader(Numbers(2, delay=0.5), 1, num_workers=1, timeout=0.02)
    with pytest.raises(RuntimeError, match=r"timed out after 0\.02 seconds"):
        next(iter(loader))


def test_a_worker_that_hangs_at_shutdown_does_not_hang_the_program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(data_workers, "LONGEST_END", 0.2)
    hangs, goes_on = threading.Event(), threading.Event()

    class Hangs(Numbers):
        def __getitem__(self, index: int) -> int:
            if index == 1:
                hangs.set()
                goes_on.wait(60)
            else:
                hangs.wait(60)  # the error comes when the other worker is at it
            return super().__getitem__(index)

    iterator = iter(DataLoader(Hangs(4, fail_at=0), 1, num_workers=2))
    begin = time.monotonic()
    with pytest.warns(RuntimeWarning, match=r"did not end within 0\.2 seconds and are left alone: stowgrad-data-1"):
        with pytest.raises(ValueError, match="sample 0 is bad"):
            next(iterator)
    assert time.monotonic() - begin < 30
    with pytest.raises(StopIteration):
        next(iterator)
    goes_on.set()


class Ending(Stream):
    """A stream that raises when it is put away."""

    def __iter__(self) -> Iterator[int]:
        try:
            yield from super().__iter__()
            yield from itertools.repeat(0)
        finally:
            raise OSError("the file was gone")


def test_a_worker_that_raises_when_the_loop_is_left_goes_to_the_threads_hook(monkeypatch: pytest.MonkeyPatch):
    heard: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda given: heard.append(str(given.exc_value)))
    for _ in DataLoader(Ending(5), 1, num_workers=1):
        break
    end = time.monotonic() + 10
    while not heard and time.monotonic() < end:
        time.sleep(0.005)
    assert heard == ["the file was gone"]


# -- positions ---------------------------------------------------------------------------------------------------------


def makers() -> dict[str, Any]:
    def seeded(**kwargs: Any) -> Any:
        return lambda workers: DataLoader(
            Numbers(23), 3, num_workers=workers, generator=stowgrad.Generator().manual_seed(5), **kwargs
        )

    return {
        "in order": lambda workers: DataLoader(Numbers(23), 3, num_workers=workers),
        "shuffled": lambda workers: DataLoader(Numbers(23), 3, shuffle=True, num_workers=workers),
        "shuffled by a generator": seeded(shuffle=True),
        "in order, with a generator": seeded(),
        "drawn": lambda workers: DataLoader(
            Numbers(23), 3, sampler=RandomSampler(range(23), replacement=True, num_samples=40), num_workers=workers
        ),
        "weighted": lambda workers: DataLoader(
            Numbers(23), 3, sampler=WeightedRandomSampler([1.0] * 23, 20), num_workers=workers
        ),
        "a stream": lambda workers: DataLoader(Stream(23), 3, num_workers=workers),
        "without batches": lambda workers: DataLoader(
            TensorDataset(stowgrad.arange(23)), None, shuffle=True, num_workers=workers
        ),
    }


@pytest.mark.parametrize("name", makers())
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_resumed_iteration_goes_on(name: str, num_workers: int):
    make = makers()[name]
    stowgrad.manual_seed(0)
    loader = make(num_workers)
    whole = [list(map(str, loader)) for _ in range(3)]
    stowgrad.manual_seed(0)
    loader = make(num_workers)
    assert list(map(str, loader)) == whole[0]
    used = 0
    for used, _ in enumerate(loader, start=1):
        if used == 4:
            break
    saved = json.loads(json.dumps(loader.state_dict()))
    state = stowgrad.get_rng_state()
    stowgrad.manual_seed(77)  # another process, whose streams are elsewhere
    other = make(num_workers)
    other.load_state_dict(saved)
    assert other.state_dict() == saved
    stowgrad.set_rng_state(state)
    assert list(map(str, other)) == whole[1][4:]
    assert list(map(str, other)) == whole[2]


@WORKERS
def test_used_samples_are_not_fetched_again(num_workers: int):
    loader = DataLoader(Numbers(20), 2, shuffle=True, num_workers=num_workers)
    iterator = iter(loader)
    for _ in range(7):
        next(iterator)
    data = Numbers(20)
    twin = DataLoader(data, 2, shuffle=True, num_workers=num_workers)
    twin.load_state_dict(loader.state_dict())
    assert lists(twin) == lists(iterator)
    assert data.asked == 6


def test_between_iterations_a_generator_is_part_of_the_state():
    make = makers()["shuffled by a generator"]
    loader = make(0)
    first, second = lists(loader), lists(loader)
    loader = make(0)
    assert lists(loader) == first
    other = make(0)
    other.load_state_dict(loader.state_dict())
    assert lists(other) == second


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
        ({"prefetch_factor": 0, "num_workers": 1}, "prefetch_factor"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"multiprocessing_context": "fork"}, "threads"),
        ({"shuffle": True, "sampler": [0]}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
    ],
)
def test_wrong_settings(kwargs: dict[str, Any], text: str):
    with pytest.raises(ValueError, match=text):
        DataLoader(Numbers(3), **kwargs)


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"shuffle": True}, "unspecified shuffle option, but got shuffle=True"),
        ({"sampler": [0]}, "unspecified sampler"),
        ({"batch_sampler": [[0]]}, "unspecified batch_sampler"),
    ],
)
def test_wrong_settings_for_streams(kwargs: dict[str, Any], text: str):
    with pytest.raises(ValueError, match=text):
        DataLoader(Stream(3), **kwargs)
