"""What the second run finds around it: defaults, casts, and random streams that are not stowgrad's."""

from __future__ import annotations

import functools
import random
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.checkpoint import checkpoint, is_recomputing, update_state
from stowgrad.nn import functional as F

VALUES = np.random.default_rng(0).normal(size=(6, 5))


def leaf() -> Any:
    return stowgrad.tensor(VALUES, requires_grad=True)


# -- generators --------------------------------------------------------------------------------------------------------

GENERATORS = {
    "Generator": (lambda: np.random.default_rng(3), lambda g: g.random(), lambda g: g.bit_generator.state),
    "RandomState": (lambda: np.random.RandomState(3), lambda g: g.rand(), lambda g: g.get_state()[2]),
    "Random": (lambda: random.Random(3), lambda g: g.random(), lambda g: g.getstate()),
}


class Noise(nn.Module):
    """A module that draws from a generator of its own."""

    def __init__(self, generator: Any, draw: Any) -> None:
        super().__init__()
        self.generator = generator
        self.draw = draw

    def forward(self, t: Any) -> Any:
        return (t * float(self.draw(self.generator))).exp()


def _given(generator: Any, draw: Any) -> Any:
    return lambda t: checkpoint(lambda s, parts: (s * float(draw(parts["deep"][0]))).exp(), t, {"deep": [generator]})


def _in_a_closure(generator: Any, draw: Any) -> Any:
    return lambda t: checkpoint(lambda s: (s * float(draw(generator))).exp(), t)


def _bound(generator: Any, draw: Any) -> Any:
    def region(g: Any, t: Any) -> Any:
        return (t * float(draw(g))).exp()

    return lambda t: checkpoint(functools.partial(region, generator), t)


def _in_a_module(generator: Any, draw: Any) -> Any:
    model = nn.Sequential(nn.Tanh(), nn.Sequential(Noise(generator, draw)))
    return lambda t: checkpoint(model, t)


def _in_a_method(generator: Any, draw: Any) -> Any:
    return lambda t: checkpoint(Noise(generator, draw).forward, t)


@pytest.mark.parametrize("kind", GENERATORS)
@pytest.mark.parametrize("hold", [_given, _in_a_closure, _bound, _in_a_module, _in_a_method])
def test_generators_of_numpy_and_python_are_restored(kind: str, hold: Any):  # spec 9.8 turned by P12
    make, draw, state = GENERATORS[kind]
    generator, x = make(), leaf()
    y = hold(generator, draw)(x)
    first = float(draw(make()))
    assert float(draw(generator)) != first
    before = state(generator)
    y.sum().backward()
    assert state(generator) == before
    inner = np.tanh(VALUES) if hold is _in_a_module else VALUES
    slope = (1 - inner**2) if hold is _in_a_module else 1.0
    np.testing.assert_allclose(x.grad.numpy(), first * np.exp(first * inner) * slope, rtol=1e-12)


_global_generator = np.random.default_rng(5)


def test_a_generator_that_the_function_finds_as_a_global():  # spec P12
    seen = []

    def region(t: Any) -> Any:
        seen.append(float(_global_generator.random()))
        return (t * seen[-1]).exp()

    checkpoint(region, leaf()).sum().backward()
    assert seen[0] == seen[1]


def test_generators_that_are_not_drawn_from_are_left_alone():
    generator, x = np.random.default_rng(3), leaf()
    y = checkpoint(lambda t, g: t.exp(), x, generator)
    seen: list[Any] = []
    x.register_hook(lambda grad: seen.append(generator.random()))
    y.sum().backward()
    assert seen[0] == np.random.default_rng(3).random()


def test_without_preserve_rng_state_such_draws_give_a_warning():  # case E9
    generator = np.random.default_rng(3)
    with pytest.warns(UserWarning, match="preserve_rng_state"):
        checkpoint(lambda t: (t * float(generator.random())).exp(), leaf(), preserve_rng_state=False)


def test_states_are_copies():  # case E11: a live handle in place of a copy makes restoring a no-op
    generator = stowgrad.Generator().manual_seed(3)
    state = generator.get_state()
    begin = state.tolist()
    stowgrad.rand(4, generator=generator)
    assert state.tolist() == begin
    assert generator.get_state().tolist() != begin


def test_streams_of_a_device_that_only_a_nested_argument_is_on():  # case E12
    x = stowgrad.ones(40, 30, device="sim:0", requires_grad=True)

    def region(parts: Any) -> Any:
        return F.dropout(parts["deep"][0].exp(), 0.5)

    y = checkpoint(region, {"deep": [x]})
    F.dropout(stowgrad.ones(7, device="sim:0"), 0.5)
    y.sum().backward()
    assert x.grad.cpu().tolist() == y.detach().cpu().tolist()


def test_attention_with_dropout_draws_again_what_it_drew():  # case E14: no op draws fresh noise when it is replayed
    def attend(t: Any) -> Any:
        return F.scaled_dot_product_attention(t.sin(), t.cos(), t, dropout_p=0.5)

    def gradient(call: Any) -> Any:
        stowgrad.manual_seed(4)
        x = stowgrad.tensor(VALUES.reshape(1, 1, 6, 5), requires_grad=True)
        y = call(attend, x)
        stowgrad.rand(3)
        y.square().sum().backward()
        return x.grad.tolist()

    assert gradient(checkpoint) == gradient(lambda function, x: function(x))


# -- defaults ----------------------------------------------------------------------------------------------------------


def test_the_default_dtype_is_the_forwards():  # spec 9.8 turned by P12
    def region(t: Any) -> Any:
        return (t * stowgrad.tensor([1.5])).exp()

    x = stowgrad.ones(3, requires_grad=True)
    y = checkpoint(region, x)
    stowgrad.set_default_dtype(stowgrad.float64)
    try:
        y.sum().backward()
        assert stowgrad.get_default_dtype() == stowgrad.float64
    finally:
        stowgrad.set_default_dtype(stowgrad.float32)
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 1.5 * np.exp(1.5)), rtol=1e-6)


def test_the_default_device_is_the_forwards():  # spec 9.7, P12
    x = stowgrad.ones(3, requires_grad=True)
    y = checkpoint(lambda t: (t * stowgrad.full((3,), 1.5)).exp(), x)
    stowgrad.set_default_device("sim:0")
    try:
        y.backward(stowgrad.ones(3, device="cpu"))
        assert stowgrad.get_default_device().type == "sim"
    finally:
        stowgrad.set_default_device(None)
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, 1.5 * np.exp(1.5)), rtol=1e-6)


def test_casts_are_the_forwards():  # case E15
    layer = nn.Linear(5, 5)
    x = stowgrad.tensor(VALUES.astype(np.float32), requires_grad=True)

    def run(call: Any) -> tuple[Any, Any]:
        x.grad = layer.weight.grad = None
        with stowgrad.autocast("cpu", dtype=stowgrad.bfloat16):
            y = call(lambda t: layer(t).tanh(), x)
        assert y.dtype == stowgrad.bfloat16
        y.float().sum().backward()
        return x.grad.tolist(), layer.weight.grad.tolist()

    assert run(checkpoint) == run(lambda function, t: function(t))


def test_a_backward_under_autocast_does_not_cast_what_ran_without():  # case E15
    layer = nn.Linear(5, 5)
    x = stowgrad.tensor(VALUES.astype(np.float32), requires_grad=True)
    y = checkpoint(lambda t: layer(t).tanh(), x)
    with stowgrad.autocast("cpu", dtype=stowgrad.bfloat16):
        y.sum().backward()
    got, x.grad = x.grad.tolist(), None
    layer(x).tanh().sum().backward()
    assert got == x.grad.tolist()


# -- what happens once -------------------------------------------------------------------------------------------------


def test_logging_may_ask_which_run_it_is_in():  # case E8; PyTorch 2.13: hooks and logging happen twice
    logged: list[float] = []

    def region(t: Any) -> Any:
        h = t.exp()
        update_state(lambda: logged.append(float(h.mean())))
        return h.sin()

    x = leaf()
    checkpoint(region, x).sum().backward()
    assert logged == [float(x.exp().mean())]


def test_forward_hooks_of_modules_see_both_runs_and_can_tell():  # case E8, spec 9.26
    layer, runs = nn.Linear(5, 5).double(), []
    layer.register_forward_hook(lambda module, args, result: runs.append(is_recomputing()))
    checkpoint(lambda t: layer(t).tanh(), leaf()).sum().backward()
    assert runs == [False, True]


class Centred(nn.Module):
    """Running statistics of the user's own, moved as the docs say."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", stowgrad.zeros(5, dtype=stowgrad.float64))

    def forward(self, t: Any) -> Any:
        mean = t.mean(0)
        update_state(lambda: self.mean.mul_(0.9).add_(0.1 * mean))
        return (t - mean).exp()


@pytest.mark.parametrize("depth", [1, 3])
def test_statistics_of_ones_own_move_once(depth: int):  # case E7, P11
    def nested(module: Any, t: Any, level: int) -> Any:
        return checkpoint(module if level == 1 else lambda s: nested(module, s, level - 1), t)

    module, plain, x, y = Centred(), Centred(), leaf(), leaf()
    nested(module, x, depth).sum().backward()
    plain(y).sum().backward()
    assert module.mean.tolist() == plain.mean.tolist()
    assert x.grad.tolist() == y.grad.tolist()


@pytest.mark.parametrize("make", [nn.utils.parametrizations.spectral_norm, nn.utils.spectral_norm])
def test_power_iterations_go_on_once(make: Any):  # case E7
    layer = make(nn.Linear(5, 5).double())
    before = {name: value.clone() for name, value in layer.state_dict().items()}

    def run(call: Any) -> Any:
        layer.load_state_dict(before)
        layer.zero_grad()
        x = leaf()
        call(layer, x).sum().backward()
        return [
            value.tolist() for value in (*layer.state_dict().values(), x.grad, *(p.grad for p in layer.parameters()))
        ]

    assert run(checkpoint) == run(lambda function, x: function(x))


def test_a_state_that_the_region_writes_itself_is_an_error_that_says_what_to_do():  # spec P11
    module = nn.BatchNorm1d(5).double()

    def region(t: Any) -> Any:
        with stowgrad.no_grad():
            module.running_mean.add_(1.0)
        return t.exp()

    y = checkpoint(region, leaf())
    with pytest.raises(RuntimeError, match=r"The region itself writes into it.*update_state"):
        y.sum().backward()
