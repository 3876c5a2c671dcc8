"""Policies for modules: conditions on them, attached to them, and the path that they have."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.checkpoint import checkpoint
from stowgrad.saved_tensors import Policy, disable_saved_tensors_hooks, modules
from stowgrad.saved_tensors.codecs import Compact


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.act = nn.GELU()

    def forward(self, x):
        return self.act(self.first(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def copy():
    return Policy(Compact())


@pytest.fixture
def model():
    return Model()


@pytest.fixture(autouse=True)
def nobody_follows():
    yield
    assert modules.followed == 0


def x():
    return stowgrad.tensor(np.ones((5, 4), np.float32), requires_grad=True)


def packed_in(policy):
    return {site.module for site in policy.report().sites if site.did or site.shared}


EVERYWHERE = {"blocks.0.act", "blocks.1.first", "blocks.1.act", "blocks.2.first", "blocks.2.act", "head"}


def test_the_report_names_modules(model):
    policy = copy()
    with policy:
        model(x()).sum()
    assert packed_in(policy) == EVERYWHERE
    assert {site.module for site in policy.report().sites} == EVERYWHERE | {"blocks.0.first"}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("blocks.1", {"blocks.1.first", "blocks.1.act"}),
        ("blocks.*.act", {"blocks.0.act", "blocks.1.act", "blocks.2.act"}),
        (["head", "blocks.0"], {"head", "blocks.0.act"}),
        (lambda path: path.endswith("first"), {"blocks.1.first", "blocks.2.first"}),
        ("blocks", set()),
    ],
)
def test_where_module(model, condition, expected):
    policy = copy().where(module=condition)
    with policy:
        model(x()).sum()
    assert packed_in(policy) == expected


def test_where_module_is_an_object(model):
    policy = copy().where(module=model.blocks[1])
    assert "module Block" in policy.describe()
    with policy:
        model(x()).sum()
    assert packed_in(policy) == {"blocks.1.first", "blocks.1.act"}
    policy = copy().where(module=[model.head, model.blocks[0].act])
    with policy:
        model(x()).sum()
    assert packed_in(policy) == {"head", "blocks.0.act"}


def test_where_refuses_what_is_no_module():
    with pytest.raises(TypeError, match="module must be a path, a module"):
        copy().where(module=3)


def test_attach_and_detach(model):
    policy = copy()
    handle = policy.attach(model.blocks)
    model(x()).sum()
    assert packed_in(policy) == EVERYWHERE - {"head"}
    handle.detach()
    handle.detach()
    other = policy.statistics().count
    model(x()).sum()
    assert policy.statistics().count == other


def test_attach_as_a_context(model):
    policy = copy()
    with policy.attach([model.blocks[0], model.head]):
        model(x()).sum()
    assert packed_in(policy) == {"blocks.0.act", "head"}


def test_two_policies_on_one_module(model):
    first, second = copy(), copy()
    with first.attach(model.head), second.attach(model.head):
        model(x()).sum()
    assert first.statistics().count == second.statistics().count == 1


def test_attached_policies_are_left_whatever_is_raised(model):
    class Bad(nn.Module):
        def forward(self, x):
            raise KeyboardInterrupt

    model.blocks[1].act = Bad()
    with copy().attach(model), pytest.raises(KeyboardInterrupt):
        model(x())


def test_an_attached_policy_where_hooks_are_disabled(model):
    with copy().attach(model), disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            model(x())
    assert modules.current_path() == ""


def test_attach_refuses_what_is_no_module(model):
    with pytest.raises(TypeError, match="expected a module or several, got int"):
        copy().attach(3)
    with pytest.raises(ValueError, match="at least one module"):
        copy().attach(nn.ModuleList())


def test_a_checkpoint_runs_the_module_with_its_policy(model):
    policy = copy()
    with policy.attach(model.blocks):
        y = checkpoint(model, x())
        y.sum().backward()
    plain = Model()
    plain.load_state_dict(model.state_dict())
    plain(x()).sum().backward()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        assert (ours.grad == theirs.grad).all()


def test_hooks_of_modules_are_called_once(model):
    calls = []
    model.head.register_forward_hook(lambda module, args, output: calls.append(module))
    with copy():
        model(x())
    assert calls == [model.head]


def test_modules_are_not_kept_alive():
    model = Model()
    reference = weakref.ref(model)
    policy = copy().where(module=model)
    handle = policy.attach(model)
    with policy:
        model(x())
    handle.detach()
    del model
    gc.collect()
    assert reference() is None


def test_threads_have_their_own_path(model):
    found = []

    class Peek(nn.Module):
        def forward(self, x):
            thread = threading.Thread(target=lambda: found.append(modules.current_path()))
            thread.start()
            thread.join()
            found.append(modules.current_path())
            return x

    model.head = Peek()
    with copy():
        model(x())
    assert found == ["", "head"]


def test_a_module_that_is_not_registered_is_named_by_its_class():
    other = nn.GELU()

    class Outer(nn.Module):
        def forward(self, x):
            return other(x * 1)

    policy = copy()
    with policy:
        Outer()(x())
    assert packed_in(policy) == {"GELU"}
