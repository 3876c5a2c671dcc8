"""Lists and dicts of parameters."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import stowgrad
from stowgrad import nn


def test_a_list_of_parameters():
    held = nn.ParameterList([stowgrad.ones(2), nn.Parameter(stowgrad.zeros(3)), "text"])
    held += [stowgrad.ones(1)]
    assert [name for name, _ in held.named_parameters()] == ["0", "1", "3"]
    assert len(held) == 4
    assert held[-2] == held[2] == "text"
    assert [value if isinstance(value, str) else value.numel() for value in held] == [2, 3, "text", 1]
    assert isinstance(held[0], nn.Parameter)
    part = held[1::2]
    assert isinstance(part, nn.ParameterList)
    assert part[1] is held[3]
    held[0] = stowgrad.ones(5)
    assert held.state_dict()["0"].shape == (5,)
    with pytest.raises(IndexError, match="out of range"):
        _ = held[4]
    with pytest.raises(TypeError, match="iterable"):
        held.extend(stowgrad.ones(2))
    with pytest.raises(RuntimeError, match="not be called"):
        held()


def test_a_dict_of_parameters():
    held = nn.ParameterDict({"b": stowgrad.ones(2), "a": stowgrad.zeros(1)})
    assert list(held) == ["a", "b"]  # a plain dict is sorted, as in PyTorch
    held.update([("z", nn.Parameter(stowgrad.ones(1)))])
    held.update(OrderedDict(y=1.5, c=stowgrad.ones(4)))
    assert list(held.keys()) == ["a", "b", "z", "y", "c"]
    assert [name for name, _ in held.named_parameters()] == ["a", "b", "z", "c"]
    assert held.get("none") is None
    assert held.setdefault("a") is held["a"]
    assert held.setdefault("new", stowgrad.ones(1)) is held["new"]
    assert "new" in held
    assert held.pop("y") == 1.5
    assert held.popitem()[0] == "new"
    twin = held.copy()
    assert twin["a"] is held["a"]
    joined = held | nn.ParameterDict({"q": stowgrad.ones(1)})
    assert list(joined) == ["a", "b", "z", "c", "q"]
    assert list(reversed(held)) == ["c", "z", "b", "a"]
    assert list(held.fromkeys(["k", "l"], 1).items()) == [("k", 1), ("l", 1)]
    held |= twin
    held.clear()
    assert len(held) == 0
    assert held.state_dict() == {}
    with pytest.raises(KeyError):
        held.popitem()


def test_what_a_dict_does_not_take():
    held = nn.ParameterDict()
    with pytest.raises(TypeError, match="not a string"):
        held[1] = stowgrad.ones(1)  # type: ignore[index]
    with pytest.raises(TypeError, match="key/value pairs"):
        held.update(3)
    with pytest.raises(TypeError, match="should be Iterable"):
        held.update([3])
    with pytest.raises(ValueError, match="length 1; 2 is required"):
        held.update([("a",)])


def test_they_show_what_they_hold():
    assert repr(nn.ParameterList([stowgrad.ones(2, 3), 1])) == (
        "ParameterList(\n    (0): Parameter containing: [float32 of size 2x3]\n    (1): Object of type: int\n)"
    )
    assert "(a): Parameter containing: [float32 of size 2]" in repr(nn.ParameterDict({"a": stowgrad.ones(2)}))
