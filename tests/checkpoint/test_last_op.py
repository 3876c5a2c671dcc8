"""The op that saves last in a region is not computed again for values that it only reads."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.autograd import Function
from stowgrad.checkpoint import CheckpointError, checkpoint
from stowgrad.saved_tensors.hooks import HookEntry

VALUES = np.random.default_rng(0).standard_normal((6, 5))


def leaf() -> Any:
    return stowgrad.tensor(VALUES, requires_grad=True)


def bits(tensor: Any) -> bytes:
    return tensor.detach().numpy().tobytes()


class Square(Function):
    """Saves its input."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * x


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, w: ((x @ w).exp() @ w) * 2.0 + x, ["matmul", "exp"]),
        (lambda x, w: (x @ w).tanh(), ["matmul", "tanh"]),
        (lambda x, w: Square.apply(x @ w) + 1, ["matmul", "mul"]),
    ],
    ids=["saves inputs", "saves its result", "a user's"],
)
def test_the_op_that_saves_last_runs_again_only_for_its_result(function: Any, expected: list[str]):  # spec 9.14
    again: list[str] = []

    class Watching(HookEntry):
        follows_ops = True
        takes_values = False

        def after_op(self, op: str, inputs: Any, results: Any) -> None:
            again.append(op)

    @contextmanager
    def watched() -> Any:
        with Watching():
            yield

    x, w, plain = leaf(), stowgrad.tensor(VALUES[:5] * 0.1, requires_grad=True), leaf()
    y = checkpoint(function, x, w, context_fn=lambda: (nullcontext(), watched()))
    y.sum().backward()
    assert again == expected
    v = stowgrad.tensor(VALUES[:5] * 0.1, requires_grad=True)
    function(plain, v).sum().backward()
    assert (bits(x.grad), bits(w.grad)) == (bits(plain.grad), bits(v.grad))


def test_a_weight_of_the_last_op_that_was_unfrozen_is_noticed():  # spec 9.17
    layer = nn.Linear(5, 5).double()
    layer.weight.requires_grad_(False)
    y = checkpoint(lambda t: layer(t.sin()), leaf())
    layer.weight.requires_grad_(True)
    with pytest.raises(CheckpointError, match="different"):
        y.sum().backward()


@pytest.mark.parametrize("setting", [{"verify": True}, {"determinism_check": "none"}, {"early_stop": False}], ids=str)
def test_gradients_are_the_plain_ones_with_every_check(setting: Any):
    layer, x, plain = nn.Linear(5, 3).double(), leaf(), leaf()
    y = checkpoint(lambda t: layer(t.sin()), x, **setting).sum()
    y.backward(retain_graph=True)
    y.backward()
    expected = layer(plain.sin()).sum()
    expected.backward(retain_graph=True)
    expected.backward()
    assert bits(x.grad) == bits(plain.grad)


def test_other_numbers_in_what_it_reads_are_noticed_with_verify():
    from stowgrad.checkpoint import is_recomputing

    layer = nn.Linear(5, 3).double()
    y = checkpoint(lambda t: layer(t * (3.0 if is_recomputing() else 2.0)), leaf(), verify=True)
    with pytest.raises(CheckpointError, match="other numbers"):
        y.sum().backward()


def test_a_value_that_it_reads_and_the_program_then_writes_is_noticed():
    w = stowgrad.tensor(VALUES[:5])
    y = checkpoint(lambda t: t.sin() @ w, leaf())
    w.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
