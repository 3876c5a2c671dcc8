"""A row of the table, and the inputs that rows draw."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import stowgrad


class Case(NamedTuple):
    """One use of an op.

    Attributes:
        op: name of the record.
        function: from tensors to a tensor or a tuple of them.
        inputs: arrays; those of floats take part in the check.
        label: which use it is.
    """

    op: str
    function: Callable[..., Any]
    inputs: tuple[np.ndarray[Any, Any], ...]
    label: str = ""

    @property
    def needs(self) -> tuple[bool, ...]:
        """Which inputs are differentiated."""
        return tuple(array.dtype.kind == "f" for array in self.inputs)

    def tensors(self, dtype: Any = None, needs: tuple[bool, ...] | None = None) -> list[Any]:
        """The inputs as leaves, those of floats in another dtype if one is given."""
        chosen = self.needs if needs is None else needs
        arrays = [a.astype(dtype) if dtype is not None and a.dtype.kind == "f" else a for a in self.inputs]
        return [stowgrad.tensor(a, requires_grad=needed) for a, needed in zip(arrays, chosen, strict=True)]


_rng = np.random.default_rng(2024)


def rand(*sizes: int, low: float = -1.0, high: float = 1.0) -> np.ndarray[Any, Any]:
    """Uniform float64 numbers."""
    return _rng.uniform(low, high, sizes)


def positive(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers from 0.5 to 2."""
    return rand(*sizes, low=0.5, high=2.0)


def apart(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers of both signs, no two of them nearer than 0.05, none nearer to 0 than that."""
    count = int(np.prod(sizes))
    steps = np.arange(1, count + 1) * 0.1 * np.where(np.arange(count) % 2, 1, -1)
    return _rng.permutation(steps).reshape(sizes)


def unary_cases(name: str, op: Any, draw: Callable[..., Any]) -> list[Case]:
    """The uses of an op on one operand: layouts, and sizes on both sides of the short way."""
    return [
        Case(name, op, (draw(3, 4),), "matrix"),
        Case(name, op, (draw(1).reshape(()),), "0-dim"),
        Case(name, op, (draw(40, 17),), "large"),  # above the size of the short way
        Case(name, lambda x: op(x.t()), (draw(3, 4),), "transposed"),
    ]


def binary_cases(name: str, op: Any, draw: Callable[..., Any], smooth: bool = True) -> list[Case]:
    """The uses of an op on two operands: broadcasting, Python numbers, the same tensor twice if it is smooth there."""
    two, large = draw(2, 3, 4), draw(2, 30, 20)
    found = [
        Case(name, op, (two[0], two[1]), "same shape"),
        Case(name, op, (two[0], two[1, 0]), "broadcast right"),
        Case(name, op, (two[0, :, :1], two[1]), "broadcast left"),
        Case(name, op, (two[0, 0, 0], two[1, 0, 0]), "0-dim both"),
        Case(name, op, (two[0, 0, 0], two[1]), "0-dim left"),
        Case(name, lambda x: op(x, 1.25), (two[0],), "number right"),
        Case(name, lambda x: op(1.25, x), (two[0],), "number left"),
        Case(name, lambda x: op(x, 1.25), (two[0, 0, 0],), "0-dim, number right"),
        Case(name, lambda x: op(1.25, x), (two[0, 0, 0],), "0-dim, number left"),
        Case(name, op, (large[0], large[1]), "large"),
    ]
    return [*found, Case(name, lambda x: op(x, x), (two[0],), "the same twice")] if smooth else found
