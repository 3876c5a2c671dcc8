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


def test_sequentials_are_added_and_multiplied():
    one, two = nn.Sequential(nn.Identity(), nn.ReLU()), nn.Sequential(nn.Tanh())
    assert [type(module).__name__ for module in one + two] == ["Identity", "ReLU", "Tanh"]
    assert (2 * two)[1] is two[0]
    assert len(one * 2) == 4
    one += two
    one *= 2
    assert list(one._modules) == ["0", "1", "2", "3", "4", "5"]
    assert one.insert(-1, nn.GELU())[5] is one[5]
    assert isinstance(one.pop(5), nn.GELU)
    assert len(one.pop(slice(2))) == 2
    assert list(one._modules) == ["0", "1", "2", "3"]
    for wrong, error in ((lambda: one + [nn.ReLU()], ValueError), (lambda: one * 0, ValueError)):
        with pytest.raises(error):
            wrong()
    with pytest.raises(TypeError, match="unsupported operand"):
        one * 1.5
    with pytest.raises(IndexError, match="out of range"):
        one.insert(9, nn.ReLU())


def test_lists_are_added():
    one = nn.ModuleList([nn.ReLU()])
    both = one + [nn.Tanh()]
    assert isinstance(both, nn.ModuleList)
    assert both.pop(0) is one[0]
    assert len(both) == 1


def test_dicts_take_pairs():
    made = nn.ModuleDict([("a", nn.ReLU()), ["b", nn.Tanh()]])
    made.update(nn.ModuleDict({"c": nn.GELU()}))
    assert list(made) == ["a", "b", "c"]
    with pytest.raises(TypeError, match="key/value pairs"):
        made.update(3)
    with pytest.raises(TypeError, match="should be Iterable"):
        made.update([3])
    with pytest.raises(ValueError, match="length 1; 2 is required"):
        made.update([("a",)])


def test_a_module_is_put_at_a_dotted_name():
    net = nn.Sequential(nn.Sequential(nn.ReLU()))
    net.set_submodule("0.0", nn.Tanh())
    net.set_submodule("0.more", nn.GELU())
    assert [type(module).__name__ for module in net[0]] == ["Tanh", "GELU"]
    with pytest.raises(AttributeError, match="no submodule 'other'"):
        net.set_submodule("0.other", nn.Tanh(), strict=True)
    with pytest.raises(AttributeError, match="no submodule '3'"):
        net.set_submodule("3.other", nn.Tanh())
    with pytest.raises(ValueError, match="without a target"):
        net.set_submodule("", nn.Tanh())
    with pytest.raises(ValueError, match="not an nn"):
        net.set_submodule("0", 3)
