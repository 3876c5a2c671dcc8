"""Keys of ``x[...]`` of all kinds beside PyTorch's: what they select, what they write, and which are refused."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

X = np.arange(24.0).reshape(2, 3, 4)
KEYS: dict[str, Callable[[Any], Any]] = {
    "bools": lambda lib: [True, False],
    "bools beside integers": lambda lib: ([True, False], [1]),
    "true first": lambda lib: (True, [1, 0]),
    "true last": lambda lib: ([1, 0], True),
    "true between": lambda lib: (0, True, [0, 1]),
    "a bool without dimensions": lambda lib: lib.tensor(True),
    "a number without dimensions": lambda lib: (slice(None), lib.tensor(1)),
    "numbers without dimensions": lambda lib: (lib.tensor(1), lib.tensor(2)),
    "broadcast, apart": lambda lib: (lib.tensor([[0], [1]]), ..., lib.tensor([1, 3])),
    "new dimensions between": lambda lib: (None, [0, 1], None, [1, 2]),
    "nothing first": lambda lib: (lib.tensor([], dtype=lib.int64),),
    "nothing second": lambda lib: (slice(None), lib.tensor([], dtype=lib.int64)),
    "nothing twice": lambda lib: ([], []),
    "a mask of all": lambda lib: (lib.zeros(3, 4) == 0).expand(2, 3, 4),
    "a mask behind": lambda lib: (slice(None), lib.zeros(3, 4) == 0),
    "a mask and a list": lambda lib: (lib.zeros(2, 3) == 0, [0, 1, 2, 3, 0, 1]),
    "a mask of the last": lambda lib: (..., lib.zeros(4) == 0),
    "lists in a list": lambda lib: [[0, 1], [2, 0]],
    "a slice in a list": lambda lib: [slice(0, 1), 1],
    "None in a list": lambda lib: [None, 0],
    "a range": lambda lib: (range(2),),
    "a tuple in a tuple": lambda lib: ((0, 1),),
    "an array": lambda lib: np.array([1, 0]),
    "int32": lambda lib: lib.tensor([1, 0], dtype=lib.int32),
    "negative": lambda lib: (slice(None), [-1, 0, -3], -2),
    "int16": lambda lib: lib.tensor([1, 0], dtype=lib.int16),
    "a float": lambda lib: 1.0,
    "too many": lambda lib: (0, 0, 0, 0),
    "too large": lambda lib: 5,
    "too small": lambda lib: -3,
    "a list too large": lambda lib: lib.tensor([5]),
    "no common shape": lambda lib: (lib.tensor([0]), lib.tensor([0, 1, 2]), lib.tensor([0, 1])),
    "a mask that does not fit": lambda lib: (lib.zeros(5) == 0,),
    "floats": lambda lib: lib.tensor([0.5]),
}


def tried(lib: Any, key: Callable[[Any], Any]) -> Any:
    """What a key selects, what is there after a write, and the gradient; or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = lib.tensor(X, requires_grad=True)
            selected = x[key(lib)]
            written = x * 1
            written[key(lib)] = 7.0
            ((selected * selected).sum() + (written * lib.tensor(X)).sum()).backward()
    except Exception as error:  # noqa: BLE001  # both raise the same
        return error
    return [tensor.detach().numpy() for tensor in (selected, written, x.grad)]


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_pytorchs(name: str) -> None:
    found, expected = tried(stowgrad, KEYS[name]), tried(torch, KEYS[name])
    if isinstance(expected, Exception):
        assert isinstance(found, type(expected)), found
        return
    assert not isinstance(found, Exception), found
    for mine, other in zip(found, expected, strict=True):
        assert mine.shape == other.shape
        np.testing.assert_array_equal(mine, other)
