"""A region reads in its second run what it read in its first, arguments in containers of all kinds included."""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.checkpoint import CheckpointError, checkpoint
from stowgrad.offload import save_on_disk
from stowgrad.saved_tensors import Compress

VALUES = np.random.default_rng(0).normal(size=(6, 5))


def leaf() -> Any:
    return stowgrad.tensor(VALUES, requires_grad=True)


# -- containers --------------------------------------------------------------------------------------------------------

Pair = namedtuple("Pair", ["first", "second"])


@dataclass
class Record:
    """Two fields."""

    first: Any
    second: Any = None


@dataclass(frozen=True, slots=True)
class Frozen:
    """One that can't be written to."""

    first: Any
    second: Any = None


class Chosen(dict):
    """A dict that is not made from pairs."""

    def __init__(self, only: Any) -> None:
        super().__init__(first=only)


def _default(t: Any) -> Any:
    made: Any = defaultdict(list)
    made["first"] = t
    return made


CONTAINERS = {
    "list": (lambda t: [t], lambda c: c[0]),
    "tuple": (lambda t: (None, t), lambda c: c[1]),
    "named tuple": (lambda t: Pair(t, 3), lambda c: c.first),
    "dict": (lambda t: {"first": t}, lambda c: c["first"]),
    "ordered dict": (lambda t: OrderedDict(first=t), lambda c: c["first"]),
    "default dict": (_default, lambda c: c["first"]),
    "dict of one's own": (Chosen, lambda c: c["first"]),
    "deque": (lambda t: deque([t], maxlen=3), lambda c: c[0]),
    "data class": (Record, lambda c: c.first),
    "frozen data class": (Frozen, lambda c: c.first),
    "all of them": (
        lambda t: Record([Frozen({"a": (Pair(1, deque([t])),)})]),
        lambda c: c.first[0].first["a"][0].second[0],
    ),
}


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("how", ["argument", "keyword"])
def test_tensors_in_containers_go_through_the_policies_outside(kind: str, how: str):  # case B15, spec 9.6
    make, get = CONTAINERS[kind]
    x, w, seen = leaf(), leaf(), []

    def region(t: Any, container: Any) -> Any:
        seen.append(type(container))
        return (t * get(container)).exp()

    with Compress("zstd", min_bytes=0) | save_on_disk(min_bytes=0) as policy:
        container = make(w * 1.0)
        t = x * 1.0
        y = checkpoint(region, t, container) if how == "argument" else checkpoint(region, t, container=container)
        del t
    assert policy.statistics().count == 2
    y.sum().backward()
    assert seen == [type(container)] * 2
    np.testing.assert_allclose(x.grad.numpy(), VALUES * np.exp(VALUES**2), rtol=1e-12)
    np.testing.assert_allclose(w.grad.numpy(), VALUES * np.exp(VALUES**2), rtol=1e-12)


@pytest.mark.parametrize("kind", [*CONTAINERS, "namespace"])
def test_tensors_in_containers_are_protected(kind: str):  # case E2, P11
    make, get = {**CONTAINERS, "namespace": (lambda t: SimpleNamespace(first=t), lambda c: c.first)}[kind]
    w = stowgrad.tensor(VALUES)
    y = checkpoint(lambda t, container: (t * get(container)).exp(), leaf(), make(w))
    w.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_what_the_function_does_to_a_container_happens_to_a_copy_the_second_time():
    hidden: list[Any] = []

    def region(t: Any, into: list[Any]) -> Any:
        into.append(t.exp())
        return into[-1].sin() * len(into)

    x = leaf()
    checkpoint(region, x, hidden).sum().backward()
    assert len(hidden) == 1
    np.testing.assert_allclose(x.grad.numpy(), np.exp(VALUES) * np.cos(np.exp(VALUES)))


def test_a_data_class_without_tensors_is_the_same_object_in_both_runs():
    setting, seen = Record(2.0), []
    checkpoint(lambda t, s: (seen.append(s), (t * s.first).exp())[1], leaf(), setting).sum().backward()
    assert all(found is setting for found in seen)


# -- other tensors -----------------------------------------------------------------------------------------------------


class Scaled(nn.Module):
    """Reads a parameter, a buffer and an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(stowgrad.tensor(VALUES))
        self.register_buffer("offset", stowgrad.tensor(VALUES))
        self.factor = stowgrad.tensor(VALUES)

    def forward(self, t: Any) -> Any:
        return ((t * self.weight + self.offset) * self.factor).exp()


@pytest.mark.parametrize("name", ["weight", "offset", "factor"])
def test_an_attribute_that_was_given_another_tensor_is_noticed(name: str):  # cases E1, E4, P11; silent in PyTorch 2.13
    module, x = Scaled(), leaf()
    y = checkpoint(module, x)
    other = stowgrad.tensor(VALUES + 1.0)
    setattr(module, name, nn.Parameter(other) if name == "weight" else other)
    with pytest.raises(CheckpointError, match="read another tensor") as caught:
        y.sum().backward()
    text = str(caught.value)
    assert "input 1, in forward: shape [6, 5], float64, category" in text
    assert text.count("test_reads.py") == 2


@pytest.mark.parametrize("name", ["weight", "offset", "factor"])
def test_another_tensor_with_the_same_numbers_is_as_good(name: str):
    module, x, plain = Scaled(), leaf(), leaf()
    y = checkpoint(module, x)
    same = stowgrad.tensor(VALUES)
    setattr(module, name, nn.Parameter(same) if name == "weight" else same)
    y.sum().backward()
    Scaled()(plain).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_a_variable_of_a_closure_that_was_given_another_tensor_is_noticed():  # case E1, P11
    b = stowgrad.tensor(VALUES)
    y = checkpoint(lambda t: (t + b).exp(), leaf())
    b = stowgrad.zeros(6, 5, dtype=stowgrad.float64)
    with pytest.raises(CheckpointError, match="read another tensor"):
        y.sum().backward()


def test_a_cached_constant_may_be_made_again():
    cache: dict[str, Any] = {}

    def region(t: Any) -> Any:
        if "mask" not in cache:
            cache["mask"] = stowgrad.ones(5, 5, dtype=stowgrad.float64).tril()
        return (t @ cache["mask"]).exp()

    x, plain = leaf(), leaf()
    y = checkpoint(region, x)
    cache.clear()
    with pytest.raises(CheckpointError, match="another operation ran"):  # it is an op more or less
        checkpoint(region, leaf()).sum().backward()
    cache.clear()
    y.sum().backward()
    region(plain).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_memory_that_is_read_from_outside_is_not_held_longer_than_the_graph(no_collector: None):
    from stowgrad.memory import memory_allocated

    module, x = Scaled(), leaf()
    before = memory_allocated()
    y = checkpoint(module, x)
    y.sum().backward()
    x.grad = module.weight.grad = None
    assert memory_allocated() - before == VALUES.nbytes  # y
    del y
    y = checkpoint(module, x)
    del y
    assert memory_allocated() == before


def test_routing_that_moved_by_one_is_an_error_with_its_line():  # case E5
    bias = np.zeros(6)

    def route(t: Any) -> Any:
        chosen = stowgrad.tensor(np.flatnonzero(VALUES[:, 0] + bias > 0))
        return t[chosen].exp()

    y = checkpoint(route, leaf())
    bias[int(np.flatnonzero(VALUES[:, 0] <= 0)[0])] = 10.0
    with pytest.raises(CheckpointError, match=r"in forward: (.|\n)*test_reads\.py:\d+") as caught:
        y.sum().backward()
    count = int((VALUES[:, 0] > 0).sum())
    assert f"[{count}" in str(caught.value)
    assert f"[{count + 1}" in str(caught.value)


def test_copies_of_a_checkpointed_model_are_models_of_their_own():
    import pickle

    model = nn.Sequential(nn.Linear(5, 5), nn.Tanh()).double()
    with stowgrad.checkpoint.checkpoint_modules(model, "0"):
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            other(leaf()).sum().backward()
            assert other[0].weight.grad is not None
            assert model[0].weight.grad is None
