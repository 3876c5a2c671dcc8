"""Law 2: a node keeps values for backward only in SavedVariables."""

from __future__ import annotations

import gc
import types
from collections import deque

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd.node import AccumulateGrad, Node
from stowgrad.autograd.record import Record
from stowgrad.autograd.variable import Variable
from stowgrad.memory import Device, Storage
from stowgrad.saved_tensors.saved_variable import SavedVariable

from .cases import CASES, nodes_of

# What is the library's or the interpreter's, and no node's own.
SHARED = (type, types.ModuleType, types.BuiltinFunctionType, Device, str, bytes, int, float, np.dtype)
# Past these doors a value or another part of the graph may be kept.
DOORS = (SavedVariable, Node, AccumulateGrad)


def inside(thing):
    """What an object refers to, without what it shares with everybody."""
    if isinstance(thing, types.FunctionType):
        return [thing.__closure__, thing.__defaults__, thing.__kwdefaults__]
    if isinstance(thing, types.MethodType):
        return [thing.__self__, thing.__func__]
    if isinstance(thing, Record):
        return list(vars(thing).values())
    return gc.get_referents(thing)


def smuggled(node):
    """Arrays, tensors and storages that a node reaches without passing a door."""
    found = []
    seen = {id(node)}
    pending = deque(gc.get_referents(node))
    while pending:
        thing = pending.popleft()
        if id(thing) in seen or isinstance(thing, SHARED):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray | np.generic | Variable | Storage | memoryview):
            found.append(thing)
        elif not isinstance(thing, DOORS):
            pending.extend(inside(thing))
    return found


@pytest.mark.parametrize("case", CASES, ids=[f"{case.op} {case.label}".strip() for case in CASES])
def test_no_array_passes_the_door(case):
    nodes = nodes_of(case.function(*case.tensors()))
    assert nodes
    assert {node.name(): found for node in nodes if (found := smuggled(node))} == {}


@pytest.mark.parametrize("case", CASES, ids=[f"{case.op} {case.label}".strip() for case in CASES])
def test_after_the_release_no_array_is_left(case):
    results = case.function(*case.tensors())
    nodes = nodes_of(results)
    gradients = [stowgrad.tensor(np.ones(r.shape)) for r in (results if isinstance(results, tuple) else (results,))]
    stowgrad.autograd.backward(results, gradients)
    kept = [node.name() for node in nodes if any(value is not None for value in node.saved_variables or ())]
    assert kept == []


def writes_through_views():
    """Nodes of writes through views, and of views made again."""
    w = stowgrad.ones(3, 4, requires_grad=True)
    x = w * 2
    kept = x.t()
    x[1:].mul_(w[:2])
    x[:, [0, 2]] = w[:, :2]
    x.masked_fill_(x > 5, w[0, 0])
    kept[0].sin_()
    return nodes_of((x, kept))


def test_no_array_passes_the_door_of_a_write():
    nodes = writes_through_views()
    assert {"CopySlices", "MulBackward0", "IndexPutBackward0", "WhereBackward0", "SinBackward0"} <= {
        node.name() for node in nodes
    }
    assert {node.name(): found for node in nodes if (found := smuggled(node))} == {}


def test_the_search_sees_an_array_in_a_closure():
    array = np.ones(3)
    node = (stowgrad.ones(2, requires_grad=True) * 2).grad_fn
    node.op_attrs = (lambda: array,)
    assert [found is array for found in smuggled(node)] == [True]


def test_the_search_sees_an_array_in_a_nested_tuple():
    array = np.ones(3)
    node = (stowgrad.ones(2, requires_grad=True) * 2).grad_fn
    node.op_attrs = ({"of": [array]},)
    assert [found is array for found in smuggled(node)] == [True]
