"""Hooks of modules in backward and around states."""

from __future__ import annotations

import copy
import gc
import weakref
from typing import Any

import pytest

import stowgrad
from stowgrad import nn
from stowgrad.checkpoint import checkpoint


def ones(**kwargs: Any) -> stowgrad.Tensor:
    return stowgrad.ones(2, 3, requires_grad=True, **kwargs)


def test_backward_hooks_on_a_device(device: str):
    layer, x = nn.Linear(3, 4).to(device=device), ones(device=device)
    seen: list[Any] = []
    layer.register_full_backward_pre_hook(lambda module, out: seen.append(out[0].shape) or (out[0] * 2,))
    handle = layer.register_full_backward_hook(
        lambda module, inputs, out: seen.append((inputs[0].shape, out[0].tolist())) or (inputs[0] * 0,)
    )
    layer(x).sum().backward()
    assert seen == [(2, 4), ((2, 3), [[2.0] * 4] * 2)]
    assert x.grad.tolist() == [[0.0] * 3] * 2
    assert layer.bias.grad.tolist() == [4.0] * 4
    handle.remove()
    layer(x).sum().backward()
    assert len(seen) == 3


def test_named_tuples_stay_what_they_are():
    class Two(nn.Module):
        def forward(self, x: Any) -> Any:
            return nn.modules.adaptive.ASMoutput(x * 1, x * 2)

    module = Two()
    seen: list[Any] = []
    module.register_full_backward_hook(lambda module, inputs, out: seen.append(len(out)))
    result = module(ones())
    assert type(result) is nn.modules.adaptive.ASMoutput
    (result.output + result.loss).sum().backward()
    assert seen == [2]


def test_hooks_and_handles_let_go():
    layer, x = nn.Linear(3, 4), ones()
    layer.register_full_backward_hook(lambda module, inputs, out: None)
    out = layer(x)
    out.sum().backward()
    del out
    watched = weakref.ref(layer)
    gc.disable()
    try:
        del layer
        assert watched() is None, "the graph is gone: nothing but a loop could keep the module"
    finally:
        gc.enable()


def test_hooks_are_copied_with_their_module():
    layer = nn.Linear(3, 4)
    seen: list[int] = []
    layer.register_forward_hook(lambda module, args, out: seen.append(id(module)))
    layer.register_full_backward_hook(lambda module, inputs, out: seen.append(id(module)))
    twin = copy.deepcopy(layer)
    twin(ones()).sum().backward()
    assert seen == [id(twin)] * 2


def test_inside_a_checkpoint():
    layer, x = nn.Linear(3, 4), ones()
    seen: list[str] = []
    layer.register_forward_pre_hook(lambda module, args: seen.append("before"))
    layer.register_full_backward_hook(lambda module, inputs, out: seen.append("backward"))
    checkpoint(layer, x).sum().backward()
    assert seen == ["before", "before", "backward"]
    assert x.grad is not None


def test_a_hook_that_can_not_be_called_is_refused():
    layer = nn.Linear(3, 4)
    for register in (layer.register_full_backward_hook, layer.register_state_dict_pre_hook):
        with pytest.raises(TypeError, match="must be callable, got int"):
            register(3)


def test_state_hooks_see_and_change_the_state():
    net = nn.Sequential(nn.Linear(3, 4))
    net[0].register_state_dict_post_hook(lambda module, state, prefix, local: state.update(more=prefix))
    assert net.state_dict(prefix="net.")["more"] == "net.0."
    handle = net.register_state_dict_post_hook(lambda module, state, prefix, local: state)
    with pytest.raises(RuntimeError, match="must return None"):
        net.state_dict()
    handle.remove()
    net = nn.Sequential(nn.Linear(3, 4))
    old = {key.replace("0.", "layer."): value for key, value in net.state_dict().items()}
    net._register_load_state_dict_pre_hook(
        lambda state, *rest: [state.update({key.replace("layer.", "0."): state.pop(key)}) for key in list(state)]
    )
    net.load_state_dict(old)
    assert set(old) == {"layer.weight", "layer.bias"}, "the caller's dict is its own"
    net.register_load_state_dict_post_hook(lambda module, keys: keys)
    with pytest.raises(RuntimeError, match="must return None"):
        net.load_state_dict(old)
