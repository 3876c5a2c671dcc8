"""NumPy's functions on tensors that are not in NumPy's memory, and gradients of gradients through them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import gradgradcheck
from stowgrad.autograd.protocols import constant
from stowgrad.memory import memory_allocated

from .. import fake_cupy


@pytest.mark.parametrize(
    "call",
    [
        np.tanh,
        np.sum,
        np.sort,
        np.argsort,
        np.unique,
        np.zeros_like,
        np.median,
        np.fft.rfft,
        np.diff,
        lambda x: np.concatenate([x, x]),
        lambda x: np.pad(x, 2, "reflect"),
        lambda x: np.add(x, 1.5),
        lambda x: np.linspace(x[0], x[1], 3),
        lambda x: np.cumulative_sum(x, include_initial=True),
        lambda x: np.interp(x, [0.0, 1.0, 4.0], [1.0, 2.0, 3.0]),
        lambda x: np.dot(x, [0.0, 1.0, 4.0, 2.0]),
        lambda x: np.histogram(x)[0],
        np.spacing,
        np.unwrap,
    ],
)
def test_results_stay_on_the_device(call: Any) -> None:
    values = np.array([3.0, 1.0, 2.0, 5.0])
    found = call(stowgrad.tensor(values, device="sim:0"))
    assert str(found.device) == "sim:0"
    np.testing.assert_allclose(found.cpu().numpy(), np.asarray(call(stowgrad.tensor(values)).numpy()))


def test_shapes_without_data() -> None:
    x = stowgrad.zeros(2, 3, device="meta")
    assert np.transpose(np.tanh(x)).shape == (3, 2)
    assert np.concatenate([x, x], axis=1).shape == (2, 6)
    assert np.sum(x, axis=0).shape == np.shape(x)[1:]
    with pytest.raises(RuntimeError, match="meta"):
        np.histogram(x)


def test_an_array_of_the_host_does_not_wander_to_a_device() -> None:
    with pytest.raises(RuntimeError, match="same device"):
        stowgrad.zeros(2, device="sim:0") + np.zeros(2)
    with pytest.raises(TypeError, match="convert sim:0"):
        np.asarray(stowgrad.zeros(2, device="sim:0"))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.linalg.solve(x @ x.T + 3 * np.eye(3), x[0]),
        lambda x: np.fft.irfft(np.fft.rfft(x) * 2j),
        lambda x: np.convolve(x[0], x[1]),
        lambda x: np.pad(x, 1, "wrap") ** 3,
        lambda x: np.interp(x[0], [-9.0, 0.1, 9.0], x[1]) * x[2],
        lambda x: np.polyfit(np.arange(3.0), x, 1) ** 2,
        lambda x: np.logaddexp.reduce(x, axis=0),
    ],
)
def test_second_derivatives(call: Any) -> None:
    x = stowgrad.tensor(np.random.default_rng(2).standard_normal((3, 3)), requires_grad=True)
    assert gradgradcheck(call, [x])


def test_what_numpy_computes_for_us_is_counted() -> None:
    t = stowgrad.zeros(1 << 15, dtype=stowgrad.float64)
    before = memory_allocated()
    spaced = np.spacing(t)
    assert memory_allocated() - before == spaced.nbytes
    del spaced
    assert memory_allocated() == before


def test_numpys_names_of_arguments() -> None:
    x = stowgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(axis=0, keepdims=True).tolist() == [[4.0, 6.0]]
    assert x.max(axis=1).values.tolist() == [2.0, 4.0]
    assert stowgrad.cat([x, x], axis=1).shape == (2, 4)
    assert stowgrad.sum(x, axis=(0, 1)).item() == 10.0
    with pytest.raises(TypeError, match=r"sum\(\) got both 'dim' and 'axis'"):
        x.sum(dim=0, axis=0)


def test_arrays_of_cupy_come_in_over_their_memory() -> None:
    with fake_cupy.installed():
        array = stowgrad.tensor(np.array([1.0, 2.0]), device="cuda:0")._array
        x = stowgrad.tensor(np.array([3.0, 4.0]), device="cuda:0", requires_grad=True)
        product = x * array
        assert str(product.device) == "cuda:0"
        assert product.tolist() == [3.0, 8.0]
        product.sum().backward()
        assert x.grad.tolist() == [1.0, 2.0]
        assert constant(array)._array is array
        with pytest.raises(RuntimeError, match="__cuda_array_interface__"):
            _ = x.__cuda_array_interface__
