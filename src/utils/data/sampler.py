"""Samplers: in which order the samples of a data set come, and which of them make a batch.

A sampler that draws remembers where its stream was when it began (``state_dict``), so that the same order can come
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ...autograd.creation import as_tensor, randint, randperm
from ...autograd.functions import multinomial
from ...autograd.random import Generator, default_generator

T_co = TypeVar("T_co", covariant=True)
_AT_ONCE = 1 << 14  # numbers that are drawn at a time, with replacement


class Sampler(Generic[T_co]):
    """Base class of samplers: define ``__iter__``, which gives numbers of samples or lists of them, and ``__len__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} does not define __iter__")


class SequentialSampler(Sampler[int]):
    """All samples in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class _Drawing(Sampler[int]):
    """A sampler that draws from a generator, or from a stream of its own that the default one gives the seed for."""

    generator: Generator | None
    _begun: tuple[int, int] | None = None
    _coming: tuple[int, int] | None = None

    def _stream(self) -> Generator:
        if self._coming is not None:
            stream = self.generator or Generator()
            stream._key, stream._counter = self._coming
            self._coming = None
        else:
            stream = Generator().manual_seed(drawn_seed(None)) if self.generator is None else self.generator
        self._begun = (stream._key, stream._counter)
        return stream

    def state_dict(self) -> dict[str, Any]:
        """Where the stream was when the last iteration began."""
        return {"begun": None if self._begun is None else list(self._begun)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the next iteration be that one again."""
        begun = state_dict["begun"]
        self._coming = None if begun is None else (int(begun[0]), int(begun[1]))


def drawn_seed(generator: Generator | None) -> int:
    """A seed for other streams."""
    words = (default_generator() if generator is None else generator).take(1)
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


class RandomSampler(_Drawing):
    """All samples in random order, or as many as asked for.

    Args:
        data_source: whose numbers are drawn.
        replacement: whether a number may come more than once.
        num_samples: how many; as many as there are by default.
        generator: where the numbers come from; by default a new stream each time.

    Raises:
        TypeError: if ``replacement`` is no bool.
        ValueError: for a number of samples that is not positive.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        if not isinstance(self.num_samples, int) or self.num_samples < 0 or num_samples == 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self) -> int:
        """How many numbers come."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        return self._numbers(self._stream())

    def _numbers(self, stream: Generator) -> Iterator[int]:
        size, left = len(self.data_source), self.num_samples
        while left > 0 and size > 0:
            if self.replacement:
                drawn = randint(0, size, (min(left, _AT_ONCE),), generator=stream)
            else:
                drawn = randperm(size, generator=stream)
            yield from drawn.tolist()[:left]
            left -= min(left, drawn.numel())

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(_Drawing):
    """Given numbers in random order."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        stream = self._stream()
        return (self.indices[number] for number in randperm(len(self.indices), generator=stream).tolist())

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(_Drawing):
    """Numbers with probabilities in proportion to weights.

    Args:
        weights: one for each sample; they need not sum up to 1.
        num_samples: how many numbers.
        replacement: whether a number may come more than once.
        generator: where they come from; by default a new stream each time.

    Raises:
        ValueError: for settings of the wrong kind or out of range, and weights that are no sequence.

    >>> list(WeightedRandomSampler([0.0, 1.0, 0.0], 3))
    [1, 1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=np.dtype(np.float64))
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self._stream())
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of ``batch_size`` numbers of another sampler.

    Args:
        sampler: the numbers, any iterable.
        batch_size: how many make a batch.
        drop_last: whether a last batch with fewer is left out.

    Raises:
        ValueError: for settings of the wrong kind or out of range.

    >>> list(BatchSampler(SequentialSampler(range(5)), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches(iter(self.sampler))

    def _batches(self, numbers: Iterator[int]) -> Iterator[list[int]]:
        batch: list[int] = []
        for number in numbers:
            batch.append(number)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]  # as far as it has a length
        return size // self.batch_size if self.drop_last else -(-size // self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """That of the sampler; empty if it has none."""
        return getattr(self.sampler, "state_dict", dict)()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Let the sampler's next iteration be that one again."""
        if hasattr(self.sampler, "load_state_dict"):
            self.sampler.load_state_dict(state_dict)
