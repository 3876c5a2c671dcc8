"""Chains in segments, chosen modules of a model, and the listing of what is saved."""

from __future__ import annotations

import functools
import io
import weakref
from typing import Any

import numpy as np
import pytest

import stowgrad
import stowgrad.utils.checkpoint
from stowgrad import nn
from stowgrad.checkpoint import (
    checkpoint,
    checkpoint_every,
    checkpoint_modules,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    is_recomputing,
    print_saved,
)
from stowgrad.saved_tensors import Cast

VALUES = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


def leaf() -> Any:
    return stowgrad.tensor(VALUES, requires_grad=True)


class Noting:
    """A function that notes when it runs."""

    def __init__(self, number: int, runs: list[tuple[int, bool]]) -> None:
        self.number, self.runs = number, runs

    def __call__(self, x: Any) -> Any:
        self.runs.append((self.number, is_recomputing()))
        return x.sin()


# -- segments ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("segments", "kept"), [(1, 7), (2, 3), (3, 2), (7, 1)])
def test_all_segments_but_the_last_run_again(segments: int, kept: int):  # spec 9.31
    runs: list[tuple[int, bool]] = []
    x = leaf()
    checkpoint_sequential([Noting(n, runs) for n in range(7)], segments, x).sum().backward()
    again = {number for number, second in runs if second}
    assert again == set(range(7 - kept))
    expected = leaf()
    y = expected
    for _ in range(7):
        y = y.sin()
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), expected.grad.numpy())


def test_a_sequential_model():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4)), leaf()
    checkpoint_sequential(model, 3, x, use_reentrant=False, preserve_rng_state=False).sum().backward()
    got = x.grad.numpy().copy()
    x.grad = None
    model(x).sum().backward()
    np.testing.assert_array_equal(got, x.grad.numpy())


@pytest.mark.parametrize("segments", [0, -1, 4, 1.0, True])
def test_segments_that_do_not_fit(segments: Any):  # spec 9.31; PyTorch: ZeroDivisionError and the like
    with pytest.raises(ValueError, match="segments must be from 1 to 3"):
        checkpoint_sequential([stowgrad.sin] * 3, segments, leaf())


def test_an_unknown_option():  # spec 9.31
    with pytest.raises(ValueError, match="unexpected keyword arguments retain"):
        checkpoint_sequential([stowgrad.sin], 1, leaf(), retain=True)


def test_no_functions():
    with pytest.raises(ValueError, match="at least one function"):
        checkpoint_sequential([], 1, leaf())


# -- modules -----------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A layer that notes its runs."""

    def __init__(self, runs: list[bool]) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.runs = runs

    def forward(self, x: Any) -> Any:
        self.runs.append(is_recomputing())
        return self.linear(x).tanh()


class Model(nn.Module):
    """Some of them."""

    def __init__(self, runs: list[bool]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(runs) for _ in range(4)])
        self.head = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def gradients(model: Any) -> list[Any]:
    model.zero_grad()
    model(stowgrad.tensor(VALUES)).sum().backward()
    return [parameter.grad.numpy().copy() for parameter in model.parameters()]


@pytest.mark.parametrize(
    ("choose", "names"),
    [
        (lambda m: checkpoint_modules(m, "blocks.?"), ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]),
        (lambda m: checkpoint_modules(m, types=Block), ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]),
        (lambda m: checkpoint_modules(m, ["blocks.1", "head"], early_stop=False), ["blocks.1", "head"]),
        (lambda m: checkpoint_every(2, m.blocks), ["0", "2"]),
    ],
    ids=["pattern", "class", "names", "every"],
)
def test_chosen_modules_run_again(choose: Any, names: list[str]):
    runs: list[bool] = []
    model = Model(runs)
    expected = gradients(model)
    runs.clear()
    with choose(model) as checkpointed:
        assert list(checkpointed.names) == names
        for got, wanted in zip(gradients(model), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
        assert runs.count(True) == sum("head" not in name for name in names)
    runs.clear()
    gradients(model)
    assert not any(runs)
    assert "forward" not in model.blocks[0].__dict__


def test_a_forward_of_the_users_own_comes_back():
    model, runs = Model([]), []
    own = model.head.forward

    def forward(x: Any) -> Any:
        runs.append(is_recomputing())
        return own(x).sin()

    model.head.forward = forward
    with checkpoint_modules(model, "head"):
        gradients(model)
    assert runs == [False, True]
    assert model.head.forward is forward


def test_a_model_that_is_checkpointed_is_freed_without_the_collector(no_collector: None):
    model = Model([])
    reference = weakref.ref(model.blocks[0])
    checkpointed = checkpoint_modules(model, types=Block)
    gradients(model)
    del model, checkpointed
    assert reference() is None


def test_state_dicts_do_not_change():
    model = Model([])
    before = list(model.state_dict())
    with checkpoint_modules(model, types=Block):
        assert list(model.state_dict()) == before


def test_what_matches_nothing_is_an_error_that_lists_the_modules():
    with pytest.raises(ValueError, match=r"nothing matches; the model has blocks \(ModuleList\), blocks.0 \(Block\)"):
        checkpoint_modules(Model([]), "layers.*")


def test_twice_is_an_error():
    model = Model([])
    with checkpoint_every(1, model.blocks), pytest.raises(ValueError, match="checkpointed already: blocks"):
        checkpoint_modules(model, "blocks.0")


@pytest.mark.parametrize(("n", "modules"), [(0, [nn.GELU()]), (1, [])])
def test_every_of_nothing(n: int, modules: list[Any]):
    with pytest.raises(ValueError, match="checkpoint_every"):
        checkpoint_every(n, modules)


# -- the listing -------------------------------------------------------------------------------------------------------


def test_the_listing_names_op_shape_bytes_and_line():
    text = io.StringIO()
    lines = print_saved(lambda x: (x * x).exp(), leaf(), file=text)
    assert [(line.op, line.slot, line.shape, line.raw_bytes, line.kept_bytes) for line in lines] == [
        ("mul", "self", (4, 4), 64, 64),
        ("mul", "other", (4, 4), 64, 64),
        ("exp", "result", (4, 4), 64, 64),
    ]
    assert all("test_parts.py" in line.site for line in lines)
    assert "total: 3 values, 192 B raw, 192 B kept, 0 B moved" in text.getvalue()


def test_the_listing_under_a_policy():
    x = stowgrad.ones(100, 100, requires_grad=True)
    lines = print_saved(lambda t: t.exp(), x, policy=Cast("bfloat16"), file=io.StringIO())
    assert [(line.raw_bytes, line.kept_bytes, line.policy) for line in lines] == [(40000, 20000, "bfloat16")]


def test_the_listing_of_a_checkpoint():
    lines = print_saved(lambda t: checkpoint(lambda s: s.exp(), t), leaf(), file=io.StringIO())
    assert ("exp", "recompute", 0) in [(line.op, line.policy, line.kept_bytes) for line in lines]


def test_the_listing_of_a_selective_checkpoint_shows_what_is_kept_and_where():
    def region(t: Any) -> Any:
        h = t.exp()
        h = h.sin()
        return h.tanh()

    contexts = functools.partial(create_selective_checkpoint_contexts, ["exp", "tanh"])
    text = io.StringIO()
    lines = print_saved(lambda t: checkpoint(region, t, context_fn=contexts), leaf(), file=text)
    kept = {(line.op, line.slot): line for line in lines if line.kept_bytes}
    assert list(kept) == [("checkpoint", "args[0]"), ("exp", "kept result 0"), ("tanh", "kept result 0")]
    first = region.__code__.co_firstlineno
    assert kept["exp", "kept result 0"].site == f"checkpoint/test_parts.py:{first + 1}"
    assert kept["tanh", "kept result 0"].site == f"checkpoint/test_parts.py:{first + 3}"
    assert "192 B kept" in text.getvalue()


def test_pytorch_s_path_leads_to_the_same_objects():  # surface 3
    assert stowgrad.utils.checkpoint.checkpoint is checkpoint
    assert stowgrad.utils.checkpoint.checkpoint_sequential is checkpoint_sequential
