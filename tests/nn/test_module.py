"""Modules: registration, walks, hooks, modes, conversions and how they show themselves."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.memory import events, pool


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Sequential(nn.LayerNorm(4), nn.ReLU())
        self.scale = nn.Parameter(stowgrad.ones(4))
        self.register_buffer("count", stowgrad.zeros(2))
        self.register_buffer("scratch", stowgrad.zeros(1), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)) * self.scale


def test_parameters_come_in_order_of_registration_own_ones_first():
    names = ["scale", "first.weight", "first.bias", "second.0.weight", "second.0.bias"]
    assert [name for name, _ in Net().named_parameters()] == names
    assert len(list(Net().parameters())) == 5


def test_buffers_modules_and_children():
    net = Net()
    assert [name for name, _ in net.named_buffers()] == ["count", "scratch"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "second", "second.0", "second.1"]
    assert [name for name, _ in net.named_children()] == ["first", "second"]
    assert net.get_submodule("second.1") is net.second[1]
    assert net.get_parameter("second.0.bias") is net.second[0].bias
    assert net.get_buffer("count") is net.count


@pytest.mark.parametrize("name", ["third", "first.weight", "second.7"])
def test_what_is_not_there_is_named(name: str):
    with pytest.raises(AttributeError, match=name.rpartition(".")[2]):
        Net().get_submodule(name)
    with pytest.raises(AttributeError, match="missing"):
        Net().get_parameter("first.missing")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        _ = Net().missing


def test_a_shared_parameter_comes_once_but_is_saved_under_both_names():
    net = Net()
    net.twin = nn.Linear(3, 4)
    net.twin.weight = net.first.weight
    assert [name for name, _ in net.named_parameters() if "weight" in name] == ["first.weight", "second.0.weight"]
    assert {"first.weight", "twin.weight"} <= set(net.state_dict())
    assert len(list(net.named_parameters(remove_duplicate=False))) == 7


def test_memory_is_counted_by_category():
    before = pool("cpu").bytes_by_category()
    net = Net()
    after = pool("cpu").bytes_by_category()
    assert after["parameter"] - before["parameter"] == 4 * (3 * 4 + 4 + 4 + 4 + 4)
    assert after["buffer"] - before["buffer"] == 4 * 3
    del net


def test_assignment_replaces_and_deletes():
    net = Net()
    net.scale = None
    assert "scale" not in net.state_dict()
    net.scale = nn.Parameter(stowgrad.zeros(4))
    del net.scale
    assert not hasattr(net, "scale")
    net.first = nn.Identity()
    assert list(net.first.parameters()) == []
    net.count = stowgrad.ones(5)
    assert net.state_dict()["count"].shape == (5,)
    assert "count" in dir(net)


def test_a_buffer_object_registers_itself():
    net = Net()
    net.kept = nn.Buffer(stowgrad.ones(1))
    net.dropped = nn.Buffer(stowgrad.ones(1), persistent=False)
    assert "kept" in net.state_dict()
    assert "dropped" not in net.state_dict()
    assert not net.kept.requires_grad


def test_wrong_assignments_are_refused():
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'Tensor' object as parameter 'scale'"):
        net.scale = stowgrad.ones(4)
    with pytest.raises(TypeError, match="not a Module subclass"):
        net.first = 3
    with pytest.raises(TypeError, match="buffer 'count'"):
        net.count = 3
    with pytest.raises(KeyError, match="already exists"):
        net.register_buffer("first", None)
    with pytest.raises(KeyError, match=r"can.*t contain"):
        net.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="empty"):
        net.add_module("", nn.Identity())
    with pytest.raises(TypeError, match="should be a string"):
        net.register_module(3, None)  # type: ignore[arg-type]


def test_assignment_before_init_is_refused():
    class Early(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(stowgrad.ones(1))

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


def test_a_module_without_forward_says_so():
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_modes_reach_every_module():
    net = Net().eval()
    assert not any(module.training for module in net.modules())
    assert net.train() is net
    assert all(module.training for module in net.modules())
    with pytest.raises(ValueError, match="boolean"):
        net.train(1)  # type: ignore[arg-type]


def test_requires_grad_and_zero_grad():
    net = Net()
    net(stowgrad.ones(2, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(not p.grad.numpy().any() for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    net.requires_grad_(False)
    assert not net(stowgrad.ones(2, 3)).requires_grad


def test_apply_visits_children_first():
    seen: list[str] = []
    Net().apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "LayerNorm", "ReLU", "Sequential", "Net"]


def test_casts_keep_the_objects_and_the_gradients():
    net = Net()
    net(stowgrad.ones(2, 3)).sum().backward()
    parameters = list(net.parameters())
    gradient = net.scale.grad.numpy().copy()
    assert net.double() is net
    assert all(a is b for a, b in zip(parameters, net.parameters(), strict=True))
    assert net.scale.dtype == net.count.dtype == net.scale.grad.dtype == stowgrad.float64
    np.testing.assert_array_equal(net.scale.grad.numpy(), gradient)
    assert net(stowgrad.ones(2, 3, dtype=stowgrad.float64)).dtype == stowgrad.float64
    assert net.to(stowgrad.float32).scale.dtype == stowgrad.float32
    assert net.scale._storage.category == "parameter"
    assert net.scale.is_leaf


def test_a_module_moves_to_a_device(device: str):
    net = Net().to(device)
    assert {str(p.device) for p in net.parameters()} == {device}
    assert str(net.count.device) == device
    out = net(stowgrad.ones(2, 3, device=device))
    assert str(out.device) == device
    assert net.first.weight._storage.category == "parameter"


def test_integer_buffers_keep_their_dtype():
    net = Net()
    net.register_buffer("index", stowgrad.arange(3))
    net.to(device="cpu", dtype=stowgrad.float64)
    assert net.index.dtype == stowgrad.int64
    with pytest.raises(TypeError, match="floating point or complex"):
        net.to(stowgrad.int32)
    with pytest.raises(TypeError, match="unexpected keyword"):
        net.to(dvice="cpu")


def test_deepcopy_shares_nothing_but_keeps_sharing():
    net = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    net[1].weight = net[0].weight
    twin = copy.deepcopy(net)
    assert twin[1].weight is twin[0].weight
    assert twin[0].weight is not net[0].weight
    with stowgrad.no_grad():
        twin[0].weight.zero_()
    assert net[0].weight.detach().numpy().any()
    assert isinstance(twin[0].weight, nn.Parameter)


def test_pickling_keeps_values_settings_and_sharing():
    net = Net().eval()
    net.twin = nn.Linear(3, 4)
    net.twin.weight = net.first.weight
    twin = pickle.loads(pickle.dumps(net))
    assert repr(twin) == repr(net)
    assert not twin.training
    assert twin.twin.weight is twin.first.weight
    assert isinstance(twin.first.weight, nn.Parameter)
    assert list(twin.state_dict()) == list(net.state_dict())
    x = stowgrad.ones(2, 3)
    np.testing.assert_array_equal(twin(x).detach().numpy(), net(x).detach().numpy())


def test_more_casts_and_devices():
    net = Net()
    net.register_buffer("index", stowgrad.arange(3))
    assert net.half().scale.dtype == stowgrad.float16
    assert net.bfloat16().scale.dtype == stowgrad.bfloat16
    assert net.index.dtype == stowgrad.int64
    assert net.type(stowgrad.float64).index.dtype == stowgrad.float64
    assert net.to(stowgrad.ones(1), non_blocking=True).scale.dtype == stowgrad.float32
    assert net.cpu().to(tensor=stowgrad.ones(1)).index.dtype == stowgrad.float32


def test_a_module_without_values_gets_memory():
    layer = nn.Linear(2, 3, device="meta")
    assert str(layer.weight.device) == "meta"
    layer.to_empty(device="cpu").load_state_dict(nn.Linear(2, 3).state_dict())
    assert str(layer.weight.device) == "cpu"
    assert layer(stowgrad.ones(2)).shape == (3,)


def test_training_mode_goes_through_overridden_train():
    class Frozen(nn.Module):
        def train(self, mode: bool = True) -> Any:
            return super().train(False)

    net = nn.Sequential(Frozen(), nn.Identity()).train()
    assert not net[0].training
    assert net[1].training


# -- hooks -------------------------------------------------------------------------------------------------------------


def test_hooks_see_and_replace_arguments_and_output():
    layer = nn.Identity()
    seen: list[str] = []
    layer.register_forward_pre_hook(lambda module, args: seen.append("pre") or (args[0] + 1,))
    layer.register_forward_hook(lambda module, args, output: seen.append("post") or output * 10)
    handle = layer.register_forward_hook(lambda module, args, output: seen.append("first"), prepend=True)
    assert layer(stowgrad.ones(1)).item() == 20
    assert seen == ["pre", "first", "post"]
    handle.remove()
    handle.remove()
    layer(stowgrad.ones(1))
    assert seen == ["pre", "first", "post", "pre", "post"]


def test_hooks_with_keyword_arguments():
    class Power(nn.Module):
        def forward(self, x: Any, *, exponent: int) -> Any:
            return x**exponent

    power = Power()
    with power.register_forward_pre_hook(lambda m, args, kwargs: (args, {"exponent": 3}), with_kwargs=True):
        assert power(stowgrad.full((1,), 2.0), exponent=2).item() == 8
    assert power(stowgrad.full((1,), 2.0), exponent=2).item() == 4
    power.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
    with pytest.raises(RuntimeError, match="None or a pair"):
        power(stowgrad.ones(1), exponent=2)
    with pytest.raises(TypeError, match="callable"):
        power.register_forward_hook(3)  # type: ignore[arg-type]


def test_observers_see_modules_and_nobody_else_pays():
    class Watch(events.Observer):
        def __init__(self) -> None:
            self.seen: list[Any] = []

        def begin(self, kind: str, name: str, subject: object = None) -> None:
            if kind == "module":
                self.seen.append((name, subject))

        def end(self, kind: str, name: str) -> None:
            if kind == "module":
                self.seen.append(name)

    watch = Watch()
    net = nn.Sequential(nn.Identity())
    events.add_observer(watch)
    try:
        net(stowgrad.ones(1))
    finally:
        events.remove_observer(watch)
    assert watch.seen == [("Sequential", net), ("Identity", net[0]), "Identity", "Sequential"]


# -- what people see ---------------------------------------------------------------------------------------------------


def test_repr():
    net = nn.ModuleDict(
        {
            "layers": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.GELU("tanh")]),
            "norm": nn.LayerNorm((2,), bias=False),
            "table": nn.Embedding(3, 2, padding_idx=-1),
            "rest": nn.Sequential(nn.ReLU(), nn.Dropout(0.25), nn.Identity()),
            "empty": nn.ModuleList(),
        }
    )
    assert repr(net) == (
        "ModuleDict(\n"
        "  (layers): ModuleList(\n"
        "    (0-1): 2 x Linear(in_features=2, out_features=2, bias=True)\n"
        "    (2): GELU(approximate='tanh')\n"
        "  )\n"
        "  (norm): LayerNorm((2,), eps=1e-05, elementwise_affine=True, bias=False)\n"
        "  (table): Embedding(3, 2, padding_idx=2)\n"
        "  (rest): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Dropout(p=0.25, inplace=False)\n"
        "    (2): Identity()\n"
        "  )\n"
        "  (empty): ModuleList()\n"
        ")"
    )


def test_parameter_repr_and_errors():
    assert repr(nn.Parameter(stowgrad.ones(1))).startswith("Parameter containing:\ntensor([1.]")
    with pytest.raises(RuntimeError, match=r"(?i)floating point"):
        nn.Parameter(stowgrad.arange(3))
    assert not nn.Parameter(stowgrad.arange(3), requires_grad=False).requires_grad
    with pytest.raises(TypeError, match="expected a Tensor as data"):
        nn.Parameter([1.0])  # type: ignore[arg-type]
    assert nn.Parameter().shape == (0,)


def test_a_parameter_shares_the_memory_of_its_data():
    data = stowgrad.ones(2)
    parameter = nn.Parameter(data)
    with stowgrad.no_grad():
        parameter.add_(1)
    assert data.numpy().tolist() == [2, 2]
    assert data._version == parameter._version == 1
