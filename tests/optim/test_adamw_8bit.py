"""AdamW with states of 8 bits: its bytes, and how near it is to AdamW."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.memory import pool
from stowgrad.optim.quantization import dynamic_map

RNG = np.random.default_rng(0)


def test_the_maps():
    for signed in (True, False):
        entries = dynamic_map(signed)
        assert len(set(entries.tolist())) == 256
        assert (np.diff(entries) > 0).all()
        assert 0.0 in entries
        assert entries[-1] == 1
    positive = dynamic_map(False)[1:]
    gaps = np.diff(positive[positive > 0.1]) / positive[positive > 0.1][:-1]
    assert gaps.max() < 0.08


@pytest.mark.parametrize("block_size", [256, 2048])
def test_bytes_of_a_parameter(block_size: int):
    parameter = nn.Parameter(stowgrad.zeros(64, 4096))
    parameter.grad = stowgrad.ones(64, 4096)
    before = pool("cpu").bytes_by_category()["optimizer_state"]
    optimizer = optim.AdamW8bit([parameter], block_size=block_size)
    optimizer.step()
    size = parameter.numel()
    counted = pool("cpu").bytes_by_category()["optimizer_state"] - before
    assert counted == 2 * size + 2 * 4 * size // block_size + 4 + 2 * 1024  # codes, scales, the step, the maps
    assert counted / size < {256: 2.05, 2048: 2.02}[block_size]


def test_a_step_needs_little_memory(memprof: Any):
    parameter = nn.Parameter(stowgrad.zeros(4_000_000))
    parameter.grad = stowgrad.ones(4_000_000)
    optimizer = optim.AdamW8bit([parameter])
    optimizer.step()
    before = pool("cpu").used_bytes()
    with memprof() as scope:
        optimizer.step()
        threads = stowgrad.get_num_threads()
    assert scope.peak_bytes <= (6 * 4 + 8) * (1 << 16) * threads + 4096
    assert pool("cpu").used_bytes() == before


@pytest.mark.parametrize("dtype", [stowgrad.float32, stowgrad.float64, stowgrad.float16, stowgrad.bfloat16])
@pytest.mark.parametrize("size", [5000, 4096])
def test_the_first_step_is_adamws(dtype: Any, size: int):
    start = RNG.standard_normal(size)
    results = []
    for kind in (optim.AdamW, optim.AdamW8bit):
        parameter = nn.Parameter(stowgrad.tensor(start).to(dtype))
        parameter.grad = stowgrad.tensor(np.linspace(-1, 1, size)).to(dtype)
        kind([parameter], lr=0.01).step()
        results.append(parameter.detach().double().numpy())
    np.testing.assert_allclose(*results, rtol=1e-2 if dtype.itemsize == 2 else 1e-5, atol=1e-7)


def test_many_steps_stay_near_adamw():
    rng = np.random.default_rng(1)
    data, target = rng.standard_normal((256, 128)), rng.standard_normal((256, 64))
    losses = []
    for kind in (optim.AdamW, optim.AdamW8bit):
        weight = nn.Parameter(stowgrad.zeros(128, 64))
        optimizer = kind([weight], lr=0.02)
        for _ in range(60):
            loss = ((stowgrad.tensor(data).float() @ weight - stowgrad.tensor(target).float()) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=0.01)


def test_an_element_whose_gradient_stops_does_not_fly_away():
    parameter = nn.Parameter(stowgrad.zeros(4096))
    optimizer = optim.AdamW8bit([parameter], lr=0.1, weight_decay=0.0)
    gradient = np.full(4096, 1e-5, np.float32)
    gradient[0] = 1.0
    parameter.grad = stowgrad.tensor(gradient)
    optimizer.step()
    gradient[1:] = 0
    parameter.grad = stowgrad.tensor(gradient)
    optimizer.step()
    assert np.abs(parameter.detach().numpy()).max() < 0.5
    codes = optimizer.state[parameter]["exp_avg_sq"].numpy()
    assert (codes[:256] > 0).all()


def test_small_parameters_and_chosen_groups_keep_floats():
    small, table, large = (nn.Parameter(stowgrad.zeros(size)) for size in (10, 5000, 5000))
    optimizer = optim.AdamW8bit([{"params": [small, large]}, {"params": table, "optim_bits": 32}])
    for parameter in (small, table, large):
        parameter.grad = stowgrad.ones(*parameter.shape)
    optimizer.step()
    dtypes = [optimizer.state[parameter]["exp_avg"].dtype for parameter in (small, table, large)]
    assert dtypes == [stowgrad.float32, stowgrad.float32, stowgrad.uint8]


def test_a_loaded_state_goes_on_bit_for_bit():
    gradients = [RNG.standard_normal(5000).astype(np.float32) for _ in range(4)]
    parameter = nn.Parameter(stowgrad.zeros(5000))
    optimizer = optim.AdamW8bit([parameter])
    for number, gradient in enumerate(gradients):
        if number == 2:
            twin = nn.Parameter(parameter.detach().clone())
            other = optim.AdamW8bit([twin])
            other.load_state_dict(optimizer.state_dict())
            assert other.state[twin]["exp_avg"].dtype == stowgrad.uint8
        parameter.grad = stowgrad.tensor(gradient)
        optimizer.step()
        if number >= 2:
            twin.grad = stowgrad.tensor(gradient)
            other.step()
    np.testing.assert_array_equal(parameter.detach().numpy(), twin.detach().numpy())


def test_any_layout():
    start = RNG.standard_normal((70, 80)).astype(np.float32)
    gradient = RNG.standard_normal((80, 70)).astype(np.float32)
    results = []
    for make in (lambda: stowgrad.tensor(start).transpose(0, 1), lambda: stowgrad.tensor(start.T.copy())):
        parameter = nn.Parameter(make())
        parameter.grad = stowgrad.tensor(gradient)
        optim.AdamW8bit([parameter]).step()
        results.append(parameter.detach().numpy())
    np.testing.assert_array_equal(*results)


def test_threads_do_not_change_steps():
    results = []
    before = stowgrad.get_num_threads()
    for threads in (1, 3):
        stowgrad.set_num_threads(threads)
        try:
            parameter = nn.Parameter(stowgrad.zeros(300_000))
            parameter.grad = stowgrad.tensor(np.linspace(-1, 1, 300_000, dtype=np.float32))
            optimizer = optim.AdamW8bit([parameter])
            optimizer.step()
            optimizer.step()
            results.append(parameter.detach().numpy())
        finally:
            stowgrad.set_num_threads(before)
    np.testing.assert_array_equal(*results)


def test_errors():
    parameter = nn.Parameter(stowgrad.zeros(2))
    with pytest.raises(ValueError, match="optim_bits"):
        optim.AdamW8bit([parameter], optim_bits=4)
    with pytest.raises(ValueError, match="block_size"):
        optim.AdamW8bit([parameter], block_size=0)
    number = nn.Parameter(stowgrad.zeros(2, dtype=stowgrad.complex64))
    number.grad = stowgrad.zeros(2, dtype=stowgrad.complex64)
    with pytest.raises(RuntimeError, match="complex"):
        optim.AdamW8bit([number]).step()
