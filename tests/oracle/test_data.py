"""Data sets, samplers and batches beside PyTorch's."""

from __future__ import annotations

import inspect
import itertools
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad.utils import data as ours

theirs = torch.utils.data
PAIR = ((stowgrad, ours), (torch, theirs))
Point = namedtuple("Point", ["x", "y"])

NAMES = sorted(set(ours.__all__) - {"Dataset", "IterableDataset", "Sampler", "WorkerInfo", "default_convert"})


@pytest.mark.parametrize("name", NAMES)
def test_signatures(name: str):
    def arguments(module: Any) -> list[tuple[str, Any]]:
        given = inspect.signature(getattr(module, name)).parameters.values()
        return [(p.name, p.default) for p in given]

    found, expected = arguments(ours), arguments(theirs)
    if name in ("default_collate", "get_worker_info"):
        assert [n for n, _ in found] == [n for n, _ in expected]
        return
    renamed = {"batch_sampler": "batch_sampler"}
    assert [(renamed.get(n, n), d) for n, d in found if n != "generator"] == [
        (n, None if callable(d) and d is not inspect.Parameter.empty else d) for n, d in expected if n != "generator"
    ]


def samples(library: Any) -> list[list[Any]]:
    t = library.tensor
    return [
        [1, 2, 3],
        [True, False],
        [1.5, 2.0],
        ["a", "b"],
        [b"a"],
        [t([1.0, 2.0]), t([3.0, 4.0])],
        [np.array([1, 2], np.int16), np.array([3, 4], np.int16)],
        [np.float32(1.5), np.float32(2.5)],
        [np.array(3), np.array(4)],
        [(1, t([2.0])), (3, t([4.0]))],
        [[1, 2.0], [3, 4.0]],
        [{"a": 1, "b": (1, "x")}, {"a": 2, "b": (3, "y")}],
        [OrderedDict(a=1), OrderedDict(a=2)],
        [Point(1, 2.0), Point(3, 4.0)],
        [(), ()],
    ]


def plain(value: Any) -> Any:
    """A nested value with dtypes and lists in place of tensors."""
    if isinstance(value, stowgrad.Tensor | torch.Tensor):
        return ("tensor", str(value.dtype).removeprefix("torch."), value.tolist())
    if isinstance(value, dict):
        return (type(value), {key: plain(part) for key, part in value.items()})
    if isinstance(value, list | tuple):
        return (type(value), [plain(part) for part in value])
    return value


@pytest.mark.parametrize("number", range(len(samples(torch))))
def test_batches(number: int):
    (mine, expected) = ((library, module, samples(library)[number]) for library, module in PAIR)
    assert plain(mine[1].default_collate(mine[2])) == plain(expected[1].default_collate(expected[2]))
    convert = theirs._utils.collate.default_convert
    assert [plain(ours.default_convert(part)) for part in mine[2]] == [plain(convert(part)) for part in expected[2]]


WRONG: list[Any] = [
    [object()],
    [None, None],
    [[1, 2], [3]],
    [np.array(["a"])],
]


@pytest.mark.parametrize("batch", WRONG)
def test_no_batches(batch: Any):
    with pytest.raises((TypeError, RuntimeError)) as expected:
        theirs.default_collate(batch)
    with pytest.raises(expected.type) as found:
        ours.default_collate(batch)
    assert str(found.value).split(";")[0] == str(expected.value).split(";")[0]


def test_data_sets():
    results = []
    for library, module in PAIR:
        rows = module.TensorDataset(library.arange(4), library.arange(8).reshape(4, 2))
        both = rows + module.Subset(rows, [2, 0])
        stacked = module.StackDataset(rows, [5, 6, 7, 8])
        named = module.StackDataset(a=[1, 2], b=[3, 4])
        results.append(
            plain(
                [
                    rows[1],
                    len(rows),
                    both[4],
                    both[-1],
                    len(both),
                    stacked[2],
                    len(stacked),
                    named[1],
                    module.Subset(rows, [3, 1]).__getitems__([1, 0]),
                    rows[1:3],
                ]
            )
        )
        with pytest.raises(AssertionError, match="Size mismatch between tensors"):
            module.TensorDataset(library.arange(4), library.arange(3))
        with pytest.raises(AssertionError, match="empty iterable"):
            module.ConcatDataset([])
        with pytest.raises(ValueError, match="exceed dataset length"):
            both[-7]
        with pytest.raises(NotImplementedError):
            module.Dataset()[0]
        with pytest.raises(ValueError, match="Size mismatch"):
            module.StackDataset([1], [1, 2])
        with pytest.raises(ValueError, match="At least one dataset"):
            module.StackDataset()
    assert results[0] == results[1]


def test_chains_of_streams():
    for _, module in PAIR:

        class Stream(module.IterableDataset):  # type: ignore[misc, name-defined]
            def __iter__(self) -> Any:
                return iter(range(2))

            def __len__(self) -> int:
                return 2

        chain = Stream() + Stream()
        assert list(chain) == [0, 1, 0, 1]
        assert len(chain) == 4
        with pytest.raises(AssertionError, match="IterableDataset"):
            module.ConcatDataset([Stream()])
        with pytest.raises(AssertionError, match="only supports IterableDataset"):
            list(module.ChainDataset([[1]]))


@pytest.mark.parametrize("lengths", [[3, 7], [0.5, 0.5], [0.33, 0.33, 0.34], [0.9, 0.05, 0.05], [10]])
@pytest.mark.filterwarnings("ignore:Length of split")
def test_splits(lengths: list[Any]):
    parts = [[list(part) for part in module.random_split(range(10), lengths)] for _, module in PAIR]
    assert [len(part) for part in parts[0]] == [len(part) for part in parts[1]]
    assert sorted(itertools.chain(*parts[0])) == list(range(10))


def test_splits_that_do_not_fit():
    for _, module in PAIR:
        with pytest.raises(ValueError, match="Sum of input lengths"):
            module.random_split(range(10), [3, 3])
        with pytest.raises(ValueError, match="is not between 0 and 1"):
            module.random_split(range(10), [1.5, -0.5])
        with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
            module.random_split(range(2), [0.9, 0.1])


def test_samplers():
    results = []
    for _, module in PAIR:
        data = range(7)
        results.append(
            [
                list(module.SequentialSampler(data)),
                sorted(module.RandomSampler(data)),
                len(list(module.RandomSampler(data, replacement=True, num_samples=40))),
                len(set(module.RandomSampler(data, num_samples=5))),
                sorted(module.RandomSampler(data, num_samples=14)),
                sorted(module.SubsetRandomSampler([3, 8, 5])),
                sorted(module.WeightedRandomSampler([0.0, 1, 2, 3], 3, replacement=False)),
                set(module.WeightedRandomSampler([0.0, 1.0, 0.0], 9)),
                list(module.BatchSampler(module.SequentialSampler(data), 3, False)),
                list(module.BatchSampler(module.SequentialSampler(data), 3, True)),
                [len(module.BatchSampler(module.SequentialSampler(data), 3, last)) for last in (False, True)],
                [len(module.RandomSampler(data, num_samples=3)), len(module.SubsetRandomSampler([1]))],
            ]
        )
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.RandomSampler(range(3), replacement=1),
        lambda m: m.RandomSampler(range(3), num_samples=0),
        lambda m: m.RandomSampler(range(3), num_samples=-2),
        lambda m: m.WeightedRandomSampler([1.0], 0),
        lambda m: m.WeightedRandomSampler([1.0], 1, replacement=2),
        lambda m: m.WeightedRandomSampler([[1.0]], 1),
        lambda m: m.BatchSampler(range(3), 0, False),
        lambda m: m.BatchSampler(range(3), 2, 1),
    ],
)
def test_wrong_settings_of_samplers(make: Any):
    with pytest.raises((TypeError, ValueError)) as expected:
        make(theirs)
    with pytest.raises(expected.type) as found:
        make(ours)
    assert str(found.value) == str(expected.value)
