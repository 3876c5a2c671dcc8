"""The second run draws the random numbers of the first."""

from __future__ import annotations

import random
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.checkpoint import checkpoint
from stowgrad.nn import functional as F


def ones(*sizes: int) -> Any:
    return stowgrad.ones(*sizes or (40, 30), requires_grad=True)


def states() -> tuple[Any, ...]:
    return stowgrad.get_rng_state().tolist(), np.random.get_state()[1:3], random.getstate()  # noqa: NPY002


def same(x: Any, y: Any) -> bool:
    return x[0] == y[0] and x[1][1] == y[1][1] and np.array_equal(x[1][0], y[1][0]) and x[2] == y[2]


def test_dropout_masks_are_the_forwards():
    x = ones()
    y = checkpoint(lambda t: F.dropout(F.dropout(t, 0.3).exp(), 0.5), x)
    y.sum().backward()
    # Where the inner one dropped, exp(0) came out; where the outer one did, 0.
    values = y.detach().numpy()
    kept = np.isclose(values, 2 * np.exp(1 / 0.7))
    np.testing.assert_allclose(x.grad.numpy(), np.where(kept, values / 0.7, 0.0), rtol=1e-6)
    assert 0 < kept.sum() < np.count_nonzero(values) < kept.size


@pytest.mark.parametrize("passes", [1, 3])
def test_gradients_are_the_plain_ones_and_streams_go_on_as_without(passes: int):
    def run(call: Any) -> tuple[bytes, list[float]]:
        stowgrad.manual_seed(5)
        x = ones()
        y = call(lambda t: F.dropout(t.exp(), 0.5) * t, x).sum()
        between = stowgrad.rand(3).tolist()
        for number in range(passes):
            y.backward(retain_graph=number < passes - 1)
        return x.grad.numpy().tobytes(), between + stowgrad.rand(3).tolist()

    assert run(checkpoint) == run(lambda function, x: function(x))


def test_numpys_and_pythons_global_streams():  # spec P12; PyTorch 2.13 restores neither (9.8)
    seen: list[tuple[float, float]] = []

    def function(x: Any) -> Any:
        seen.append((float(np.random.rand()), random.random()))  # noqa: NPY002
        return (x * seen[-1][0]).exp() * seen[-1][1]

    y = checkpoint(function, ones())
    np.random.rand()  # noqa: NPY002
    random.random()
    before = states()
    y.sum().backward()
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert same(before, states())


def test_streams_are_put_back_after_a_failure():
    fail = [False]

    def function(x: Any) -> Any:
        y = F.dropout(x.exp(), 0.5) * float(np.random.rand()) * random.random()  # noqa: NPY002
        if fail:
            fail.pop()
            return y * y
        raise ValueError("the second run fails")

    y = checkpoint(function, ones())
    before = states()
    with pytest.raises(ValueError, match="the second run fails"):
        y.sum().backward()
    assert same(before, states())


def test_a_generator_of_ones_own():  # spec P12; PyTorch 2.13 doesn't restore it (9.8)
    generator = stowgrad.Generator().manual_seed(3)
    x = ones()
    y = checkpoint(lambda t: F.dropout(t.exp(), 0.5, generator=generator) * F.dropout(t, 0.5), x)
    stowgrad.rand(2, generator=generator)
    before = generator.get_state().tolist()
    y.sum().backward()
    assert generator.get_state().tolist() == before
    assert np.array_equal(x.grad.numpy() != 0, y.detach().numpy() != 0)


def test_a_generator_of_ones_own_in_nested_regions():
    generator = stowgrad.Generator().manual_seed(3)

    def inner(t: Any) -> Any:
        return F.dropout(t, 0.5, generator=generator).exp()

    def outer(t: Any) -> Any:
        first = F.dropout(t, 0.2, generator=generator)
        return checkpoint(inner, first) * checkpoint(inner, t)

    def run(call: Any) -> bytes:
        generator.manual_seed(3)
        x = ones()
        y = call(outer, x)
        stowgrad.rand(2, generator=generator)
        y.sum().backward()
        return x.grad.numpy().tobytes()

    got = run(checkpoint)
    generator.manual_seed(3)
    plain = ones()
    first = F.dropout(plain, 0.2, generator=generator)
    (inner(first) * inner(plain)).sum().backward()
    assert got == plain.grad.numpy().tobytes()


def test_a_generator_and_the_default_that_are_one():
    generator = stowgrad.manual_seed(8)

    def function(t: Any) -> Any:
        return F.dropout(t, 0.5, generator=generator) + F.dropout(t, 0.5).exp()

    x = ones()
    checkpoint(function, x).sum().backward()
    generator = stowgrad.manual_seed(8)
    plain = ones()
    function(plain).sum().backward()
    assert x.grad.numpy().tobytes() == plain.grad.numpy().tobytes()


def test_without_preserve_rng_state_a_function_that_draws_gets_a_warning():  # case E9
    with pytest.warns(UserWarning, match="preserve_rng_state"):
        checkpoint(lambda t: F.dropout(t, 0.5) * t, ones(), preserve_rng_state=False)


def test_without_preserve_rng_state_other_functions_get_none():
    x = ones()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint(lambda t: t.exp(), x, preserve_rng_state=False).sum().backward()
        checkpoint(lambda t: F.dropout(t, 0.5, training=False).exp(), x, preserve_rng_state=False).sum().backward()
    assert x.grad is not None


def _masked(seed: int) -> int:
    """Elements in which the mask of the second run differs from the first's, over some regions of one thread."""
    wrong = 0
    for number in range(10):
        x = ones(50, 20)
        y = checkpoint(lambda t: F.dropout(t.exp(), 0.5) * t, x)
        if number % 2:
            F.dropout(ones(3), 0.5)
        y.sum().backward()
        wrong += int(((x.grad.numpy() != 0) != (y.detach().numpy() != 0)).sum())
    return wrong


def test_threads_do_not_disturb_each_other():  # cases E13, F18; PyTorch 2.13: 26 of 160 masks differ
    barrier = threading.Barrier(8)

    def work(seed: int) -> int:
        barrier.wait()
        return _masked(seed)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [0] * 8


def test_threads_may_read_one_region_at_the_same_time():  # case F18
    model = nn.Sequential(nn.Linear(30, 30), nn.GELU(), nn.Dropout(0.5), nn.Linear(30, 30))
    x = ones()
    y = checkpoint(model, x).square().sum()
    (expected,) = stowgrad.autograd.grad(y, x, retain_graph=True)
    barrier = threading.Barrier(8)

    def work(_: int) -> bytes:
        barrier.wait()
        return b"".join(stowgrad.autograd.grad(y, x, retain_graph=True)[0].numpy().tobytes() for _ in range(5))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(8))) == {expected.numpy().tobytes() * 5}
