"""Sequential, ModuleList and ModuleDict."""

from __future__ import annotations

import pytest

import stowgrad
from stowgrad import nn


def test_sequential_chains_and_slices():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert net(stowgrad.ones(5, 2)).shape == (5, 1)
    assert len(net) == 3
    assert net[-1] is net[2]
    part = net[:2]
    assert isinstance(part, nn.Sequential)
    assert part[0] is net[0]
    assert [type(module).__name__ for module in net] == ["Linear", "ReLU", "Linear"]
    net.append(nn.Identity())
    assert list(net.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    with pytest.raises(IndexError, match="out of range"):
        net[4]


def test_sequential_takes_names():
    net = nn.Sequential({"in": nn.Linear(2, 3), "out": nn.Linear(3, 1)})
    assert list(net.state_dict()) == ["in.weight", "in.bias", "out.weight", "out.bias"]
    assert list(net[1:].state_dict()) == ["out.weight", "out.bias"]
    net[0] = nn.Identity()
    assert list(net.state_dict()) == ["out.weight", "out.bias"]


@pytest.mark.parametrize("make", [nn.Sequential, lambda *m: nn.ModuleList(m)])
def test_only_modules_get_in(make: type):
    with pytest.raises(TypeError, match="not a Module subclass"):
        make(3)


def test_list():
    net = nn.ModuleList(nn.Linear(1, size) for size in (1, 2))
    net += [nn.Linear(1, 3)]
    net.insert(0, nn.Linear(1, 9))
    assert [module.out_features for module in net] == [9, 1, 2, 3]
    del net[1]
    assert [module.out_features for module in net] == [9, 2, 3]
    assert list(net._modules) == ["0", "1", "2"]
    assert [module.out_features for module in net[1:]] == [2, 3]
    del net[1:]
    net.extend([nn.Linear(1, 4)])
    net[0] = nn.Linear(1, 5)
    assert [module.out_features for module in net] == [5, 4]
    with pytest.raises(TypeError, match="iterable"):
        net.extend(3)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError):
        net(1)


def test_dict():
    net = nn.ModuleDict({"a": nn.Linear(1, 2)})
    net["b"] = nn.ReLU()
    net.update({"c": nn.Identity()})
    assert list(net) == list(net.keys()) == ["a", "b", "c"]
    assert "b" in net
    assert len(net) == 3
    assert net.pop("b").__class__ is nn.ReLU
    del net["c"]
    assert [name for name, _ in net.items()] == ["a"]
    assert next(iter(net.values())) is net["a"]
    net.clear()
    assert list(net.parameters()) == []
    with pytest.raises(TypeError, match="not a Module subclass"):
        net["x"] = 3  # type: ignore[assignment]
