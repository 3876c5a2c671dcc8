"""Data sets: samples by number, or one after the other."""

from __future__ import annotations

import bisect
import itertools
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from ...autograd.creation import randperm
from ...autograd.random import Generator
from ...autograd.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Base class of data sets with samples by number (or other keys): define ``__getitem__``, and ``__len__``.

    ``__getitems__(numbers)``, where there is one, gives a list of samples at once.
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Base class of data sets that give one sample after the other: define ``__iter__``.

    With several workers each of them iterates by itself: `get_worker_info` tells them apart.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]  # as in PyTorch
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """A sample is a row of each of several tensors.

    Raises:
        AssertionError: for different numbers of rows.

    >>> import stowgrad
    >>> TensorDataset(stowgrad.arange(3), stowgrad.ones(3))[1]
    (tensor(1), tensor(1.))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.shape[0] != tensors[0].shape[0] for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """A sample is a tuple (or, of keywords, a dict) of samples of several data sets.

    Raises:
        ValueError: for different lengths, for none, and for both tuples and keywords.
    """

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output"
            )
        self.datasets: Any = args or kwargs
        if not self.datasets:
            raise ValueError("At least one dataset should be passed")
        lengths = {_size(dataset) for dataset in (args or kwargs.values())}
        if len(lengths) != 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[Any]):
    """One data set after the other.

    Raises:
        AssertionError: for none, and for one without numbers.
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = list(itertools.accumulate(_size(dataset) for dataset in self.datasets))

    def __getitem__(self, index: int) -> Any:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        number = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[number][index - (self.cumulative_sizes[number - 1] if number else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Any]):
    """One iterable data set after the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(_size(dataset) for dataset in self.datasets)


class Subset(Dataset[Any]):
    """The samples of a data set with some numbers."""

    def __init__(self, dataset: Dataset[Any], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[number] for number in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Several samples, at once where the data set can."""
        numbers = [self.indices[index] for index in indices]
        at_once = getattr(self.dataset, "__getitems__", None)
        found: list[Any] = [self.dataset[number] for number in numbers] if at_once is None else at_once(numbers)
        return found

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[Any], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset]:
    """Subsets of given lengths that have no sample in common.

    Args:
        dataset: what is split.
        lengths: numbers of samples, or parts of 1: what rounding leaves goes to the first subsets.
        generator: which samples go where; the default one if None.

    Raises:
        ValueError: for lengths that do not sum up to that of the data set.

    >>> [len(part) for part in random_split(range(10), [0.7, 0.3])]
    [7, 3]
    """
    size = _size(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for number, part in enumerate(lengths):
            if part < 0 or part > 1:
                raise ValueError(f"Fraction at index {number} is not between 0 and 1")
        sizes = [math.floor(size * part) for part in lengths]
        for number in range(size - sum(sizes)):
            sizes[number % len(sizes)] += 1
        for number, length in enumerate(sizes):
            if length == 0:
                warnings.warn(
                    f"Length of split at index {number} is 0. This might result in an empty dataset.", stacklevel=2
                )
        lengths = sizes
    if sum(lengths) != size:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(size, generator=generator).tolist()
    ends = itertools.accumulate(int(length) for length in lengths)
    return [Subset(dataset, order[end - int(length) : end]) for end, length in zip(ends, lengths, strict=True)]


def _size(dataset: Any) -> int:
    return len(dataset)
