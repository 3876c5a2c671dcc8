"""The gradient scaler beside PyTorch's, on the CPU."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad import amp

PAIR = (stowgrad, torch)


def setting(library: Any, **kwargs: Any) -> Any:
    parameter = library.nn.Parameter(library.tensor([1.0, -2.0, 3.0]))
    return parameter, library.optim.SGD([parameter], lr=0.1), library.amp.GradScaler("cpu", **kwargs)


def test_scales_and_steps():
    found = []
    for library in PAIR:
        parameter, optimizer, scaler = setting(library, init_scale=8.0, growth_interval=3)
        seen = []
        for number in range(20):
            factor = float("inf") if number in (5, 6, 13) else float("nan") if number == 9 else 1.0
            optimizer.zero_grad()
            loss = (parameter * parameter * 0.1).sum() * factor
            scaled = scaler.scale(loss)
            scaled.backward()
            if number % 2:
                scaler.unscale_(optimizer)
                library.nn.utils.clip_grad_norm_([parameter], 0.3)
            scaler.step(optimizer)
            scaler.update()
            seen.append([scaler.get_scale(), scaler.state_dict()["_growth_tracker"], *parameter.detach().tolist()])
        found.append(seen)
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_scaled_outputs():
    found = []
    for library in PAIR:
        scaler = library.amp.GradScaler("cpu")
        results = []
        for dtype in (library.float16, library.bfloat16, library.float32, library.float64):
            for value in (library.tensor(0.75, dtype=dtype), library.tensor([0.25, 3.0], dtype=dtype)):
                scaled = scaler.scale(value)
                results.append((str(scaled.dtype).removeprefix("torch."), scaled.double().tolist()))
        pair = scaler.scale((library.ones(1), [library.ones(2)]))
        results.append((type(pair), type(pair[1]), pair[1][0].tolist()))
        results.append(next(iter(scaler.scale(iter([library.ones(1)])))).tolist())
        with pytest.raises(ValueError, match="must be a Tensor or an iterable of Tensors"):
            scaler.scale(3)
        found.append(results)
    assert found[0] == found[1]


def test_states():
    for library in PAIR:
        parameter, optimizer, scaler = setting(library, init_scale=4.0, growth_interval=5)
        for _ in range(3):
            scaler.scale(parameter.sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        state = scaler.state_dict()
        assert state == {
            "scale": 4.0,
            "growth_factor": 2.0,
            "backoff_factor": 0.5,
            "growth_interval": 5,
            "_growth_tracker": 3,
        }
        twin = library.amp.GradScaler("cpu")
        twin.load_state_dict(state)
        assert twin.state_dict() == state
        twin.set_growth_factor(3.0)
        twin.set_backoff_factor(0.25)
        twin.set_growth_interval(7)
        assert (twin.get_growth_factor(), twin.get_backoff_factor(), twin.get_growth_interval()) == (3.0, 0.25, 7)
        with pytest.raises(RuntimeError, match="state dict is empty"):
            twin.load_state_dict({})
        off = library.amp.GradScaler("cpu", enabled=False)
        assert off.state_dict() == {}
        off.load_state_dict(state)
        assert (off.get_scale(), off.is_enabled()) == (1.0, False)
        assert off.scale(parameter) is parameter
        off.step(optimizer)
        off.update()


def test_new_scales():
    found = []
    for library in PAIR:
        parameter, optimizer, scaler = setting(library)
        scaler.scale(parameter.sum()).backward()
        scaler.step(optimizer)
        scaler.update(3.0)
        first = scaler.get_scale()
        scaler.update(library.tensor(5.0))
        found.append((first, scaler.get_scale()))
        with pytest.raises(AssertionError, match="new_scale should be"):
            scaler.update(library.ones(2))
    assert found[0] == found[1]


def test_errors():
    for library in PAIR:
        parameter, optimizer, scaler = setting(library)
        for call, arguments in ((scaler.step, [optimizer]), (scaler.unscale_, [optimizer]), (scaler.update, [])):
            with pytest.raises(AssertionError, match=r"did not use scaler\.scale"):
                call(*arguments)
        scaler.scale(parameter.sum())
        with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
            scaler.step(optimizer)
        scaler = library.amp.GradScaler("cpu")
        scaler.scale(parameter.sum()).backward()
        with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
            scaler.update()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError, match="already been called on this optimizer"):
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
            scaler.step(optimizer)
        with pytest.raises(RuntimeError, match=r"called after step\(\)"):
            scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError, match="Closure"):
            scaler.step(optimizer, closure=lambda: None)
        with pytest.raises(AssertionError, match="growth factor"):
            library.amp.GradScaler("cpu", growth_factor=1.0)
        with pytest.raises(AssertionError, match="backoff factor"):
            library.amp.GradScaler("cpu", backoff_factor=1.0)
        half = library.nn.Parameter(library.ones(2, dtype=library.float16))
        scaler = library.amp.GradScaler("cpu", init_scale=1.0)
        scaler.scale(half.sum().float()).backward()
        with pytest.raises(ValueError, match="FP16 gradients"):
            scaler.unscale_(library.optim.SGD([half], lr=0.1))


def test_without_a_gpu_the_default_turns_itself_off():
    for library in PAIR:
        with pytest.warns(UserWarning, match="CUDA is not available"):
            assert not library.amp.GradScaler().is_enabled()


def test_an_update_in_backward_leaves_nothing_to_unscale():
    parameter, optimizer, scaler = setting(stowgrad)
    stowgrad.optim.in_backward(optimizer)
    scaler.scale(parameter.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.step(optimizer)


def test_signatures():
    def arguments(library: Any) -> list[tuple[str, Any]]:
        given = inspect.signature(library.GradScaler).parameters.values()
        return [(p.name, p.default) for p in given]

    assert arguments(amp) == arguments(torch.amp)
