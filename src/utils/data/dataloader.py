"""`DataLoader`: batches of a data set."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...autograd.random import Generator
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler, drawn_seed
from .workers import Prefetching


class DataLoader:
    """Iterates over a data set in batches, like ``torch.utils.data.DataLoader``; its workers are threads.

    Args:
        dataset: samples by number, or an `IterableDataset`.
        batch_size: how many samples make a batch; None for samples as they are.
        shuffle: whether the samples come in another order each time.
        sampler: the numbers of the samples, in place of ``shuffle``.
        batch_sampler: lists of numbers, in place of ``batch_size``, ``shuffle``, ``sampler`` and ``drop_last``.
        num_workers: how many threads fetch batches ahead; 0 to fetch them when they are asked for. Samples are made by
            Python code, which threads take turns at: they help where it waits for files or computes in NumPy.
        collate_fn: makes a batch of a list of samples; `default_collate` by default.
        pin_memory: accepted for PyTorch's sake.
        drop_last: whether a last batch with fewer samples is left out.
        timeout: the longest wait for a batch of a worker, in seconds; 0 for ever.
        worker_init_fn: called with its number on each worker's thread.
        multiprocessing_context: None, for workers are threads.
        generator: where the order, and the seed of the workers, come from.
        prefetch_factor: how many batches a worker makes ahead, 2 by default. That bounds the memory they take.
        persistent_workers, pin_memory_device, in_order: accepted for PyTorch's sake; batches always come in order.

    Raises:
        ValueError: for settings that exclude each other, or are out of range.

    What a worker raises is raised at its batch, with the worker's own traceback. Threads end with the iteration, also
    when it is left; one that hangs is left alone after five seconds, with a warning. `state_dict` says where an
    iteration is: a loader that it is loaded into goes on there.

    >>> import stowgrad
    >>> from stowgrad.utils.data import TensorDataset
    >>> loader = DataLoader(TensorDataset(stowgrad.arange(5)), batch_size=2)
    >>> [x.tolist() for (x,) in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self._is_iterable = isinstance(dataset, IterableDataset)
        if self._is_iterable:
            _check_iterable(shuffle, sampler, batch_sampler)
        _check_batches(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers > 0 else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.generator = generator
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None and not self._is_iterable:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and not self._is_iterable:
            batch_sampler = BatchSampler(sampler or (), batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        batches = batch_sampler is not None or batch_size is not None
        self.collate_fn = collate_fn or (default_collate if batches else default_convert)
        self._in_batches = batches
        self._position: _Position | None = None
        self._coming: dict[str, Any] | None = None

    @property
    def _order(self) -> Any:
        """What gives the numbers of a batch."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        resumed, self._coming = self._coming, None
        iteration = _Iteration(self, resumed)
        self._position = iteration.position  # not the iteration: when that is left, its threads end
        return iteration

    def __len__(self) -> int:
        if not self._is_iterable:
            return len(self._order)
        size = len(self.dataset)
        if self.batch_size is None:
            return size
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    # -- position ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the last iteration that was begun is, as plain values, such as JSON can hold.

        The batches that were handed out count, not those fetched ahead. Samplers are asked for their ``state_dict()``;
        one without must give the same numbers again.
        """
        if self._coming is not None:
            return dict(self._coming)
        position = self._position
        if position is None or position.finished:
            return {"batches": 0, "generator": self._stream_state()}
        return {
            "batches": position.batches,
            "seed": position.seed,
            "sampler": position.sampler,
            "generator": position.generator,
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iteration go on where `state_dict` was called; those after it are whole again.

        Numbered samples that were used are not fetched again; an `IterableDataset` is gone through from the start.
        """
        state = dict(state_dict)
        generator = self._generator()
        if generator is not None and state.get("generator") is not None:
            generator._key, generator._counter = (int(word) for word in state["generator"])
        self._position = None
        self._coming = state if "seed" in state else None

    def _generator(self) -> Generator | None:
        inner = getattr(self.batch_sampler, "sampler", self.sampler)
        found: Generator | None = self.generator or getattr(inner, "generator", None)
        return found

    def _stream_state(self) -> list[int] | None:
        generator = self._generator()
        return None if generator is None else [generator._key, generator._counter]

    # -- fetching ------------------------------------------------------------------------------------------------------

    def _tasks(self) -> Iterator[Any]:
        """What each batch is made of: numbers, or how many samples."""
        return itertools.repeat(self.batch_size) if self._is_iterable else iter(self._order)

    def _fetcher(self) -> Callable[[Any], Any]:
        """A function from a task to a batch, for one thread."""
        if self._is_iterable:
            return _Stream(self.dataset, self.collate_fn, self.drop_last)
        return self._fetch

    def _fetch(self, task: Any) -> Any:
        if not self._in_batches:
            return self.collate_fn(self.dataset[task])
        at_once = getattr(self.dataset, "__getitems__", None)
        return self.collate_fn([self.dataset[number] for number in task] if at_once is None else at_once(task))

    def _start_worker(self, number: int) -> Callable[[Any], Any]:
        if self.worker_init_fn is not None:
            self.worker_init_fn(number)
        return self._fetcher()


class _Stream:
    """Batches of an iterable data set; StopIteration at its end."""

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self._samples = iter(dataset)
        self._collate = collate
        self._drop_last = drop_last

    def __call__(self, size: int | None) -> Any:
        if size is None:
            return self._collate(next(self._samples))
        samples = list(itertools.islice(self._samples, size))
        if not samples or (self._drop_last and len(samples) < size):
            raise StopIteration
        return self._collate(samples)

    def close(self) -> None:
        """Let a generator run to its end."""
        close = getattr(self._samples, "close", None)
        if close is not None:
            close()


@dataclass
class _Position:
    """Where an iteration is: how many batches were handed out, and what gives the same ones again."""

    seed: int
    generator: list[int] | None
    sampler: Any
    batches: int = 0
    finished: bool = False


class _Iteration:
    """One pass over a loader's batches."""

    def __init__(self, loader: DataLoader, resumed: dict[str, Any] | None) -> None:
        order = loader._order
        if resumed is not None and resumed.get("sampler") is not None:
            order.load_state_dict(resumed["sampler"])
        # One draw whether or not there are workers: the streams go on the same.
        seed = drawn_seed(loader.generator) if resumed is None else int(resumed["seed"])
        generator = loader._stream_state()
        tasks = loader._tasks()
        sampler = order.state_dict() if hasattr(order, "state_dict") else None
        self.position = _Position(seed, generator, sampler)
        skipped = 0 if resumed is None else int(resumed["batches"])
        if loader._is_iterable or skipped == 0:
            self._batches = self._fetched(loader, tasks, 0)
            for _ in range(skipped):
                next(self, None)
        else:
            self._batches = self._fetched(loader, itertools.islice(tasks, skipped, None), skipped)
            self.position.batches = skipped

    def _fetched(self, loader: DataLoader, tasks: Iterator[Any], first: int) -> Iterator[Any]:
        if loader.num_workers == 0:
            return map(loader._fetcher(), tasks)
        return Prefetching(
            tasks,
            loader._start_worker,
            num_workers=loader.num_workers,
            prefetch_factor=loader.prefetch_factor or 2,
            timeout=loader.timeout,
            seed=self.position.seed,
            dataset=loader.dataset,
            first=first,
        )

    def __iter__(self) -> _Iteration:
        return self

    def __next__(self) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            self.position.finished = True
            raise
        self.position.batches += 1
        return batch


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool, context: Any
) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to enable"
            " multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError("prefetch_factor option should be positive")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if context is not None:
        raise ValueError("multiprocessing_context: workers are threads here, expected None")


def _check_iterable(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    text = "DataLoader with IterableDataset: expected unspecified"
    if shuffle not in (False, None):
        raise ValueError(f"{text} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{text} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{text} batch_sampler option, but got batch_sampler={batch_sampler}")


def _check_batches(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
    elif batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
