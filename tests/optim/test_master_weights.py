"""16-bit parameters that are optimized through float32 copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim, utils
from stowgrad.memory import pool

KINDS: dict[str, Any] = {
    "AdamW": lambda params: optim.AdamW(params, lr=1e-3),
    "AdamW8bit": lambda params: optim.AdamW8bit(params, lr=1e-3, min_8bit_size=8),
    "Adafactor": lambda params: optim.Adafactor(params, lr=1e-3),
    "SGD": lambda params: optim.SGD(params, lr=1e-3),
    "SGD with momentum": lambda params: optim.SGD(params, lr=1e-3, momentum=0.9),
    "RMSprop": lambda params: optim.RMSprop(params, lr=1e-3),
    "NAdam": lambda params: optim.NAdam(params, lr=1e-3),
}
DTYPES = pytest.mark.parametrize("dtype", [stowgrad.bfloat16, stowgrad.float16])


def gradients(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal((6, 5)).astype(np.float32) for _ in range(count)]


def parameter(dtype: Any, device: str = "cpu") -> Any:
    start = np.random.default_rng(0).standard_normal((6, 5)).astype(np.float32)
    return nn.Parameter(stowgrad.tensor(start, device=device).to(dtype))


def step(optimizer: Any, param: Any, gradient: np.ndarray) -> None:
    param.grad = stowgrad.tensor(gradient, device=param.device).to(param.dtype)
    optimizer.step()


@DTYPES
@pytest.mark.parametrize("name", KINDS)
def test_copies_go_the_way_of_float32_parameters(name: str, dtype: Any, device: str):
    narrow = parameter(dtype, device)
    wide = nn.Parameter(narrow.detach().float())
    one, two = optim.master_weights(KINDS[name]([narrow])), KINDS[name]([wide])
    for gradient in gradients(10):
        rounded = stowgrad.tensor(gradient).to(dtype).float().numpy()
        step(one, narrow, rounded)
        step(two, wide, rounded)
        copy = one.state[narrow]["master_weight"]
        assert copy.dtype == stowgrad.float32
        np.testing.assert_array_equal(copy.cpu().numpy(), wide.detach().cpu().numpy())
        assert narrow.dtype == dtype
        assert narrow.detach().cpu().tolist() == wide.detach().to(dtype).cpu().tolist()


def test_small_updates_add_up():
    found = {}
    for kind in (lambda optimizer: optimizer, optim.master_weights):
        param = nn.Parameter(stowgrad.ones(4, dtype=stowgrad.bfloat16))
        optimizer = kind(optim.SGD([param], lr=1e-4))
        for _ in range(200):
            step(optimizer, param, np.ones(4, np.float32))
        found[kind] = param.float().tolist()
    assert list(found.values()) == [[1.0] * 4, [0.98046875] * 4]


def test_float32_parameters_have_no_copy():
    param = parameter(stowgrad.float32)
    optimizer = optim.master_weights(optim.AdamW([param]))
    step(optimizer, param, gradients(1)[0])
    assert "master_weight" not in optimizer.state[param]


@DTYPES
@pytest.mark.parametrize("name", KINDS)
def test_a_loaded_state_goes_on_bit_for_bit(tmp_path: Path, name: str, dtype: Any):
    model = nn.Linear(5, 6, bias=False, dtype=dtype)
    optimizer = optim.master_weights(KINDS[name](model.parameters()))
    for gradient in gradients(3):
        step(optimizer, model.weight, gradient)
    utils.save_training_state(tmp_path / "x", model=model, optimizer=optimizer)
    twin = nn.Linear(5, 6, bias=False, dtype=dtype)
    other = KINDS[name](twin.parameters())  # that it has copies comes with the state
    utils.load_training_state(tmp_path / "x", model=twin, optimizer=other)
    copied = KINDS[name](twin.parameters())
    copied.load_state_dict(optimizer.state_dict())
    assert copied.state[twin.weight]["master_weight"].dtype == stowgrad.float32
    for gradient in gradients(5)[3:]:
        step(optimizer, model.weight, gradient)
        step(other, twin.weight, gradient)
    ours, theirs = optimizer.state[model.weight], other.state[twin.weight]
    assert list(ours) == list(theirs)
    for key, value in ours.items():
        assert value.dtype == theirs[key].dtype
        np.testing.assert_array_equal(value.numpy(), theirs[key].numpy())
    assert model.weight.tolist() == twin.weight.tolist()


def test_with_updates_in_backward_it_is_the_same():
    x = stowgrad.tensor(gradients(1)[0]).bfloat16()
    results = []
    for fused in (False, True):
        stowgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 8), nn.Linear(8, 3)).bfloat16()
        optimizer = optim.master_weights(optim.AdamW(model.parameters(), lr=1e-2))
        if fused:
            optim.in_backward(optimizer)
        for _ in range(3):
            (model(x) ** 2).float().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        results.append([value.float().tolist() for value in model.parameters()])
    assert results[0] == results[1]


def test_bytes_of_a_parameter():
    cpu = pool("cpu")
    param = nn.Parameter(stowgrad.zeros(256, 256, dtype=stowgrad.bfloat16))
    optimizer = optim.master_weights(optim.AdamW([param]))
    before = cpu.bytes_by_category()["optimizer_state"]
    param.grad = stowgrad.ones_like(param)
    optimizer.step()
    assert cpu.bytes_by_category()["optimizer_state"] - before == 3 * 4 * param.numel() + 4


def test_what_it_refuses():
    param = parameter(stowgrad.bfloat16)
    with pytest.raises(TypeError, match="L-BFGS"):
        optim.master_weights(optim.LBFGS([param]))
    optimizer = optim.AdamW([param])
    step(optimizer, param, gradients(1)[0])
    with pytest.raises(RuntimeError, match="before the first step"):
        optim.master_weights(optimizer)
