"""Random programs of in-place operations on tensors and views: the same in PyTorch, errors included."""

from __future__ import annotations

import functools
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

Step = Callable[[Any, list[Any]], Any]
ROWS, COLUMNS = 3, 4
_rng = np.random.default_rng(11)
LEAVES = [_rng.uniform(0.5, 1.5, size) for size in ((ROWS, COLUMNS), (COLUMNS,), ())]

# In both libraries these save the same: the former value, the result or nothing.
UNARY = ("neg", "sin", "cos", "tanh", "sigmoid", "square", "exp", "sqrt", "log", "reciprocal", "abs")
BINARY = ("add", "sub", "mul", "div")


class Program:
    """Steps that are drawn while PyTorch runs them: what is possible depends on the shapes so far."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.ran: list[str] = []

    def step(self, pool: list[Any]) -> tuple[str, Step]:
        """A step, for PyTorch's tensors so far: it may return a tensor that joins them."""
        draw = self.draw
        number = draw.randrange(len(pool))
        kinds = [self.view, self.view, self.unary, self.binary, self.binary, self.fill, self.assign, self.made]
        return draw.choice(kinds)(number, tuple(pool[number].shape), pool)

    def view(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> tuple[str, Step]:
        draw = self.draw
        found: dict[str, Step] = {"flat": lambda lib, ts: ts[n].reshape(-1), "new": lambda lib, ts: ts[n].unsqueeze(0)}
        if shape:
            d, size = draw.randrange(len(shape)), shape[draw.randrange(len(shape))]
            i = draw.randrange(shape[0])
            begin = draw.randrange(shape[d])
            length = draw.randint(1, shape[d] - begin)
            every = tuple(slice(None, None, draw.choice((1, 2))) for _ in shape)
            found |= {
                f"[{i}]": lambda lib, ts: ts[n][i],
                f"narrow({d}, {begin}, {length})": lambda lib, ts: ts[n].narrow(d, begin, length),
                f"{every}": lambda lib, ts: ts[n][every],
                "turned": lambda lib, ts: ts[n].permute(*reversed(range(len(shape)))),
                "expand": lambda lib, ts: ts[n].expand(2, *shape),
                f"split({d}, {size})": lambda lib, ts: ts[n].split(size, d)[0],
                "unbind": lambda lib, ts: ts[n].unbind(0)[i],
            }
        name = draw.choice(sorted(found))
        how = found[name]
        if draw.random() < 0.08:
            return f"{n} no_grad {name}", lambda lib, ts: _under_no_grad(lib, how, ts)
        return f"{n} {name}", how

    def unary(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> tuple[str, Step]:
        name = self.draw.choice(UNARY)
        return f"{n} {name}_", lambda lib, ts: nothing(getattr(ts[n], f"{name}_")())

    def binary(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> tuple[str, Step]:
        draw = self.draw
        name = draw.choice(BINARY)
        fitting = [m for m, other in enumerate(pool) if _broadcasts(tuple(other.shape), shape)]
        if draw.random() < 0.2:
            return f"{n} {name}_ 1.5", lambda lib, ts: nothing(getattr(ts[n], f"{name}_")(1.5))
        m = draw.choice(fitting)
        # Operands in memory of their own: PyTorch refuses those that overlap the target in part.
        copied = draw.random() < 0.5 or (m != n and _same_memory(pool[m], pool[n]))
        return (
            f"{n} {name}_ {m} {'copied' if copied else ''}",
            lambda lib, ts: nothing(getattr(ts[n], f"{name}_")(ts[m].clone() if copied else ts[m])),
        )

    def fill(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> tuple[str, Step]:
        m = self.draw.choice([m for m, other in enumerate(pool) if _broadcasts(tuple(other.shape), shape)])
        scalars = [k for k, other in enumerate(pool) if not other.ndim]
        k = self.draw.choice(scalars)
        found: dict[str, Step] = {
            f"{n} copy_ {m}": lambda lib, ts: nothing(ts[n].copy_(ts[m].clone())),
            f"{n} fill_": lambda lib, ts: nothing(ts[n].fill_(0.7)),
            f"{n} fill_ {k}": lambda lib, ts: nothing(ts[n].fill_(ts[k].clone())),
            f"{n} zero_": lambda lib, ts: nothing(ts[n].zero_()),
            f"{n} masked_fill_": lambda lib, ts: nothing(ts[n].masked_fill_(ts[n] > 0.9, 0.4)),
            f"{n} masked_fill_ {k}": lambda lib, ts: nothing(ts[n].masked_fill_(ts[n] > 0.9, ts[k].clone())),
        }
        name = self.draw.choice(sorted(found))
        return name, found[name]

    def assign(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> tuple[str, Step]:
        draw = self.draw
        if not shape:
            return self.unary(n, shape, pool)
        i, j = draw.randrange(shape[0]), draw.randrange(shape[-1])
        rows = draw.sample(range(shape[0]), draw.randint(1, shape[0]))
        columns = draw.sample(range(shape[-1]), draw.randint(1, shape[-1]))
        keys: list[Callable[[Any, Any], Any]] = [
            lambda lib, t: i,
            lambda lib, t: (..., j),
            lambda lib, t: slice(i, None),
            lambda lib, t: lib.tensor(rows),
            lambda lib, t: (..., lib.tensor(columns)),
            lambda lib, t: t > 0.8,
            lambda lib, t: (lib.tensor(rows), *[slice(None)] * (len(shape) - 2), j) if len(shape) > 1 else i,
        ]
        which = draw.randrange(len(keys))
        key = keys[which]
        scalars = [k for k, other in enumerate(pool) if not other.ndim]
        k = draw.choice(scalars)
        whole = draw.random() < 0.3

        def step(lib: Any, ts: list[Any]) -> None:
            at = key(lib, ts[n])
            ts[n][at] = 1.1 if whole and which == 5 else ts[n][at].clone() * 2 if whole else ts[k].clone()

        return f"{n} key {which} {rows} {columns} {i} {j} = {'itself' if whole else k}", step

    def made(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> tuple[str, Step]:
        name = self.draw.choice(("sin", "tanh", "square", "clone"))
        return f"{n} {name}", lambda lib, ts: getattr(ts[n], name)()


def nothing(_: Any) -> None:
    """A step that makes no new tensor."""


def _under_no_grad(lib: Any, step: Step, tensors: list[Any]) -> Any:
    with lib.no_grad():
        return step(lib, tensors)


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _same_memory(a: Any, b: Any) -> bool:
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())


def begin(lib: Any) -> tuple[list[Any], list[Any]]:
    """Leaves, and the tensors that a program starts from."""
    leaves = [lib.tensor(array, dtype=lib.float64, requires_grad=True) for array in LEAVES]
    w, u, s = leaves
    return leaves, [w, u, s, w * 1.25, w * u, lib.zeros(ROWS, COLUMNS, dtype=lib.float64) + 0.6, u * s, s * 0.9]


def attempt(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(), None
    except (RuntimeError, IndexError, TypeError) as error:
        return None, error


def host(tensor: Any) -> np.ndarray[Any, Any]:
    return np.asarray(tensor.detach().numpy(force=True))


def usable(tensor: torch.Tensor) -> bool:
    """Whether PyTorch can make the history of a view again; it also does so, here and not at some later use."""
    return attempt(lambda: tensor.grad_fn)[1] is None


def same(got: Any, expected: Any, what: str) -> None:
    assert (got is None) == (expected is None), what
    if got is not None:
        np.testing.assert_allclose(host(got), host(expected), rtol=1e-9, atol=1e-9, err_msg=what, equal_nan=True)


def gradients(lib: Any, leaves: list[Any], tensors: list[Any]) -> tuple[Any, Any]:
    """First derivatives of what all tensors add up to, and derivatives of their squares."""
    loss = leaves[0].sum() * 0
    for weight, tensor in enumerate(tensors, start=1):
        loss = loss + (tensor * (0.1 * weight)).sum()
    first = lib.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    total = sum(((g * g).sum() for g in first if g is not None), leaves[0].sum() * 0)
    return first, lib.autograd.grad(total, leaves, allow_unused=True)


def run(seed: int, steps: int = 7) -> str:
    """Run a program in both libraries and compare; returns what became of it."""
    program = Program(seed)
    (leaves, mine), (their_leaves, theirs) = begin(stowgrad), begin(torch)
    for _ in range(steps):
        name, step = program.step(theirs)
        program.ran.append(name)
        result, error = attempt(functools.partial(step, torch, theirs))
        got, problem = attempt(functools.partial(step, stowgrad, mine))
        what = f"seed {seed}: {program.ran}\nPyTorch: {error}\nstowgrad: {problem}"
        if error is None and "single memory location" in str(problem):
            return "overlap"  # PyTorch lets some operations write there
        assert (error is None) == (problem is None), what
        if result is not None:
            theirs.append(result)
            mine.append(got)
        # What PyTorch can't make again is left alone from here on.
        alive = [usable(tensor) for tensor in theirs]
        theirs = [tensor for tensor, good in zip(theirs, alive, strict=True) if good]
        mine = [tensor for tensor, good in zip(mine, alive, strict=True) if good]
        for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            same(a, b, f"{what}\ntensor {number}")
    result, error = attempt(lambda: gradients(torch, their_leaves, theirs))
    got, problem = attempt(lambda: gradients(stowgrad, leaves, mine))
    what = f"seed {seed}: {program.ran}\nPyTorch: {error}\nstowgrad: {problem}"
    assert (error is None) == (problem is None), what
    if error is not None:
        return "error"
    for order in (0, 1):
        for number in range(len(leaves)):
            same(got[order][number], result[order][number], f"{what}\nderivative {order + 1} of leaf {number}")
    return "compared"


@pytest.mark.parametrize("seed", range(200))
def test_a_random_program(seed: int) -> None:  # spec 2.1 to 2.16
    run(seed)
