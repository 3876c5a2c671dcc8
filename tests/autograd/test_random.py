"""Random numbers: their distributions, that a seed and a state repeat them, and threads."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import stowgrad
from stowgrad.autograd import random

COUNT = 300_000  # more than two of the tiles that are drawn each by itself
DRAWS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda g: stowgrad.rand(COUNT, generator=g, dtype=stowgrad.float64),
    "randn": lambda g: stowgrad.randn(COUNT, generator=g),
    "randint": lambda g: stowgrad.randint(10, (COUNT,), generator=g),
    "randperm": lambda g: stowgrad.randperm(COUNT, generator=g),
    "normal": lambda g: stowgrad.normal(stowgrad.full((COUNT,), 2.0), 3.0, generator=g),
    "bernoulli": lambda g: stowgrad.bernoulli(stowgrad.full((COUNT,), 0.3), generator=g),
    "multinomial": lambda g: stowgrad.multinomial(stowgrad.tensor([1.0, 2.0, 3.0]), COUNT, True, generator=g),
    "multinomial without": lambda g: stowgrad.multinomial(stowgrad.ones(1000), 500, generator=g),
    "poisson": lambda g: stowgrad.poisson(stowgrad.full((COUNT,), 3.0), generator=g),
    "binomial": lambda g: stowgrad.binomial(stowgrad.full((COUNT,), 7.0), stowgrad.tensor(0.4), generator=g),
    "gamma": lambda g: stowgrad._standard_gamma(stowgrad.full((COUNT,), 1.5), generator=g),
    "dirichlet": lambda g: stowgrad._sample_dirichlet(stowgrad.ones(COUNT // 4, 4), generator=g),
} | {
    name: lambda g, name=name, args=args: getattr(stowgrad.zeros(COUNT), name)(*args, generator=g)  # type: ignore[misc]
    for name, args in {
        "normal_": (1.0, 2.0),
        "uniform_": (-1.0, 3.0),
        "exponential_": (2.0,),
        "cauchy_": (1.0, 2.0),
        "log_normal_": (0.5, 0.25),
        "geometric_": (0.25,),
        "random_": (5, 9),
        "bernoulli_": (0.2,),
    }.items()
}
DISTRIBUTIONS = {
    "rand": stats.uniform(),
    "randn": stats.norm(),
    "normal": stats.norm(2, 3),
    "gamma": stats.gamma(1.5),
    "normal_": stats.norm(1, 2),
    "uniform_": stats.uniform(-1, 4),
    "exponential_": stats.expon(scale=0.5),
    "cauchy_": stats.cauchy(1, 2),
    "log_normal_": stats.lognorm(0.25, scale=np.exp(0.5)),
}
MEANS = {
    "randint": 4.5,
    "bernoulli": 0.3,
    "poisson": 3.0,
    "binomial": 2.8,
    "dirichlet": 0.25,
    "geometric_": 4.0,
    "random_": 6.5,
    "bernoulli_": 0.2,
    "multinomial": 4 / 3,
}


def seeded(seed: int = 11) -> Any:
    return stowgrad.Generator().manual_seed(seed)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_numbers_pass_the_test_of_kolmogorov_and_smirnov(name: str) -> None:
    found = DRAWS[name](seeded()).numpy().astype(np.float64)
    assert stats.kstest(found, DISTRIBUTIONS[name].cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", MEANS)
def test_counts_have_their_mean(name: str) -> None:
    found = DRAWS[name](seeded()).numpy().astype(np.float64)
    assert found.mean() == pytest.approx(MEANS[name], abs=5 * found.std() / found.size**0.5)


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_and_a_state_repeat_what_follows(name: str) -> None:
    generator = seeded()
    first = DRAWS[name](generator).numpy()
    state, twin = generator.get_state(), generator.clone()
    second = DRAWS[name](generator).numpy()
    assert (first != second).any()
    np.testing.assert_array_equal(DRAWS[name](seeded()).numpy(), first)
    np.testing.assert_array_equal(DRAWS[name](twin).numpy(), second)
    np.testing.assert_array_equal(DRAWS[name](stowgrad.Generator().set_state(state)).numpy(), second)
    assert (DRAWS[name](seeded(12)).numpy() != first).any()


@pytest.mark.parametrize("name", DRAWS)
def test_the_number_of_threads_does_not_matter(name: str) -> None:
    before = stowgrad.get_num_threads()
    try:
        found = []
        for count in (1, 4):
            stowgrad.set_num_threads(count)
            found.append(DRAWS[name](seeded()).numpy())
    finally:
        stowgrad.set_num_threads(before)
    np.testing.assert_array_equal(*found)


def test_one_generator_serves_several_threads() -> None:
    generator, draws = seeded(), []

    def draw() -> None:
        draws.extend(stowgrad.rand(5, generator=generator).tolist() for _ in range(200))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({tuple(numbers) for numbers in draws}) == 800


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda g: pickle.loads(pickle.dumps(g))])
def test_copies_go_on_from_where_a_generator_is(how: Callable[[Any], Any]) -> None:
    generator = seeded()
    stowgrad.rand(3, generator=generator)
    twin = how(generator)
    assert stowgrad.rand(3, generator=twin).tolist() == stowgrad.rand(3, generator=generator).tolist()
    assert twin.initial_seed() == generator.initial_seed()


def test_a_fork_leaves_the_stream_where_it_was() -> None:
    stowgrad.manual_seed(5)
    expected = stowgrad.rand(3).tolist()
    stowgrad.manual_seed(5)
    with random.fork_rng():
        stowgrad.rand(7)
        stowgrad.manual_seed(99)
        stowgrad.rand(7)
    assert stowgrad.rand(3).tolist() == expected
    assert stowgrad.initial_seed() == 5
    with random.fork_rng(enabled=False):
        stowgrad.manual_seed(99)
    assert stowgrad.initial_seed() == 99


def test_a_seed_of_the_system_is_told() -> None:
    seed = stowgrad.seed()
    first = stowgrad.rand(3).tolist()
    stowgrad.manual_seed(seed)
    assert stowgrad.rand(3).tolist() == first


def test_complex_numbers() -> None:
    found = stowgrad.randn(COUNT, dtype=stowgrad.complex64, generator=seeded()).numpy()
    np.testing.assert_allclose([found.real.var(), found.imag.var()], 0.5, rtol=0.02)
    assert abs(np.corrcoef(found.real, found.imag)[0, 1]) < 0.02
    x = stowgrad.zeros(3, 4, dtype=stowgrad.complex128).t()
    x.normal_(2.0, 0.0)
    assert (x.numpy() == 2).all()
    assert stowgrad.rand((), dtype=stowgrad.complex64).shape == ()


def test_all_that_a_dtype_has() -> None:
    for name, largest in (("int8", 127), ("bool", True), ("float16", 2047), ("uint8", 255)):
        found = stowgrad.zeros(COUNT, dtype=getattr(stowgrad, name)).random_(generator=seeded())
        assert (found.min().item(), found.max().item()) == (0, largest)


def test_strided_tensors_are_filled_in_their_order() -> None:
    flat = stowgrad.zeros(3, 4).exponential_(generator=seeded())
    turned = stowgrad.zeros(4, 3).t().exponential_(generator=seeded())
    assert flat.tolist() == turned.tolist()


# -- gradients ---------------------------------------------------------------------------------------------------------


def test_gamma_numbers_move_with_their_shapes() -> None:
    shapes = stowgrad.full((COUNT,), 2.5, dtype=stowgrad.float64, requires_grad=True)
    sample = stowgrad._standard_gamma(shapes, generator=seeded())
    sample.pow(2).sum().backward()
    # The expectation of the square is a * (a + 1).
    assert shapes.grad.mean().item() == pytest.approx(2 * 2.5 + 1, rel=0.02)
    assert sample.grad_fn.name() == "StandardGammaBackward0"


def test_gamma_numbers_have_no_second_derivative() -> None:
    shapes = stowgrad.full((3,), 2.5, requires_grad=True)
    (first,) = stowgrad.autograd.grad(stowgrad._standard_gamma(shapes).sum(), shapes, create_graph=True)
    with pytest.raises(NotImplementedError, match="standard_gamma"):
        first.sum().backward()


def test_dirichlet_rows_have_a_gradient() -> None:
    weights = stowgrad.ones(4, requires_grad=True)
    rows = stowgrad._sample_dirichlet(weights.expand(50, 4), generator=seeded())
    np.testing.assert_allclose(rows.sum(1).detach().numpy(), 1, rtol=1e-6)
    rows[:, 0].sum().backward()
    assert weights.grad[0].item() > 0 > weights.grad[1].item()


@pytest.mark.parametrize("name", ["exponential_", "cauchy_", "log_normal_", "random_", "uniform_", "normal_"])
def test_what_is_written_over_gets_no_gradient(name: str) -> None:
    x = stowgrad.ones(3, requires_grad=True)
    y = x * 2
    getattr(y, name)()
    assert y.grad_fn.name().startswith(name.title().replace("_", ""))
    (y * 3).sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: x.exponential_(0), RuntimeError, "lambda > 0"),
        (lambda x: x.long().exponential_(), RuntimeError, "floating point"),
        (lambda x: x.cauchy_(0, -1), RuntimeError, "sigma > 0"),
        (lambda x: x.long().cauchy_(), RuntimeError, "floating point"),
        (lambda x: x.log_normal_(0, -1), RuntimeError, "std > 0"),
        (lambda x: x.long().log_normal_(), NotImplementedError, "int64"),
        (lambda x: x.geometric_(1), RuntimeError, "in \\(0, 1\\)"),
        (lambda x: x.bool().geometric_(0.5), NotImplementedError, "bool"),
        (lambda x: x.random_(5, 2), RuntimeError, "less than"),
        (lambda x: x.to(stowgrad.int8).random_(300), RuntimeError, "out of bounds"),
        (lambda x: x.uniform_(2, 1), RuntimeError, "range"),
        (lambda x: x.int().uniform_(), NotImplementedError, "int32"),
        (lambda x: x.int().normal_(), NotImplementedError, "int32"),
        (lambda x: x.uniform_(start=1), TypeError, "start"),
        (lambda x: x.random_(start=1), TypeError, "start"),
        (lambda x: x.normal_(generator=3), TypeError, "Generator or None, not int"),
        (lambda x: stowgrad.rand(2, generator=3), TypeError, "Generator or None, not int"),
        (lambda x: stowgrad.poisson(x - 1), RuntimeError, "non-negative"),
        (lambda x: stowgrad.poisson(x.long()), NotImplementedError, "int64"),
        (lambda x: stowgrad.binomial(x.long(), x), ValueError, "count"),
        (lambda x: stowgrad.binomial(x.double(), x), RuntimeError, "one dtype"),
        (lambda x: stowgrad._standard_gamma(x.long()), NotImplementedError, "int64"),
    ],
)
def test_what_cannot_be_drawn(call: Callable[[Any], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(stowgrad.zeros(3))


def test_the_meta_device_knows_the_shapes() -> None:
    x = stowgrad.ones(2, 3, device="meta", requires_grad=True)
    made = [stowgrad.poisson(x), stowgrad.binomial(x, x), stowgrad._standard_gamma(x), (x * 1).exponential_()]
    assert [tensor.shape for tensor in made] == [(2, 3)] * 4
    stowgrad._standard_gamma(x).sum().backward()
    assert x.grad.shape == (2, 3)
