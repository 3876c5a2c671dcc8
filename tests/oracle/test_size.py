"""`Size` beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

pytestmark = pytest.mark.oracle

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "numel": lambda lib, size: size.numel(),
    "numel of none": lambda lib, size: lib.Size().numel(),
    "slice": lambda lib, size: size[1:],
    "last": lambda lib, size: size[-1],
    "sum": lambda lib, size: size + (1,),
    "sum of two": lambda lib, size: size + size,
    "sum from the left": lambda lib, size: (1,) + size,
    "product": lambda lib, size: size * 2,
    "product from the left": lambda lib, size: 2 * size,
    "equal": lambda lib, size: size == (2, 3, 4),
    "hash": lambda lib, size: hash(size) == hash((2, 3, 4)),
    "text": lambda lib, size: f"{size}",
    "pickle": lambda lib, size: pickle.loads(pickle.dumps(size)),
    "deepcopy": lambda lib, size: copy.deepcopy(size),
    "of numbers": lambda lib, size: lib.Size([np.int64(3), lib.tensor(2), True]),
    "of an iterator": lambda lib, size: lib.Size(iter(range(3))),
    "of floats": lambda lib, size: lib.Size([1.5]),
    "of text": lambda lib, size: lib.Size("ab"),
    "of a number": lambda lib, size: lib.Size(3),
    "sum with a list": lambda lib, size: size + [1],
    "list with it": lambda lib, size: [1] + size,
    "makes a tensor": lambda lib, size: lib.zeros(size).size(),
    "of the shape": lambda lib, size: lib.zeros(size).shape == size,
    "of a dimension": lambda lib, size: lib.zeros(size).size(1),
}


def outcome(lib: Any, call: Callable[[Any, Any], Any]) -> Any:
    try:
        found = call(lib, lib.zeros(2, 3, 4).size())
    except Exception as error:  # noqa: BLE001  # its class is what is compared
        return type(error)
    return type(found).__name__, repr(found).replace("torch.", "stowgrad.")


@pytest.mark.parametrize("name", CALLS)
def test_size(name: str) -> None:
    assert outcome(stowgrad, CALLS[name]) == outcome(torch, CALLS[name])
