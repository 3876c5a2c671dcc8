"""What a checkpointed function computes, and how often it runs."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.autograd import Function, grad
from stowgrad.checkpoint import checkpoint, is_recomputing
from stowgrad.saved_tensors import saved_tensors_hooks
from stowgrad.utils.checkpoint import checkpoint as checkpoint_by_pytorchs_path

VALUES = np.random.default_rng(0).standard_normal((6, 5))


def leaf(device: str = "cpu") -> Any:
    return stowgrad.tensor(VALUES, device=device, requires_grad=True)


def body(x: Any) -> Any:
    return (x.sin() * x).exp().tanh() @ x.t()


class Counted:
    """A function that counts its runs."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.runs = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.runs += 1
        return self.function(*args, **kwargs)


def bits(tensor: Any) -> bytes:
    return tensor.cpu().detach().numpy().tobytes()


# -- values ------------------------------------------------------------------------------------------------------------


def test_values_and_gradients_are_the_plain_ones_bit_for_bit(device: str):
    plain, x = leaf(device), leaf(device)
    expected, y = body(plain), checkpoint(body, x)
    assert bits(y) == bits(expected)
    expected.sum().backward()
    y.sum().backward()
    assert bits(x.grad) == bits(plain.grad)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_use_reentrant_is_accepted_and_changes_nothing(use_reentrant: bool):  # spec 9.1, 9.27, P15
    x, plain = leaf(), leaf()
    y = checkpoint(body, x, use_reentrant=use_reentrant)
    (got,) = grad(y.sum(), x)
    (expected,) = grad(body(plain).sum(), plain)
    assert bits(got) == bits(expected)


def test_use_reentrant_takes_keywords_and_keeps_real_nodes():  # spec 9.2, 9.28 turned by P15
    x, w = leaf(), leaf()
    y = checkpoint(lambda t, *, other: {"out": (t * other["w"]).exp()}, x, other={"w": w}, use_reentrant=True)["out"]
    assert y.grad_fn.name() == "ExpBackward0"
    y.sum().backward(inputs=[w])
    assert x.grad is None
    np.testing.assert_allclose(w.grad.numpy(), VALUES * np.exp(VALUES**2))


def test_use_reentrant_does_not_turn_gradients_on():  # spec 9.28 turned by P15
    x = stowgrad.tensor(VALUES)
    assert not checkpoint(lambda t: t.exp(), x, use_reentrant=True).requires_grad
    a, b = checkpoint(lambda t: (t.exp(), t.detach()), leaf(), use_reentrant=True)
    assert (a.requires_grad, b.requires_grad) == (True, False)


def test_use_reentrant_checks_what_runs_again():  # spec 9.30 turned by P15
    y = checkpoint(lambda t: t.sin() if is_recomputing() else t.cos(), leaf(), use_reentrant=True)
    with pytest.raises(stowgrad.checkpoint.CheckpointError, match="another operation"):
        y.sum().backward()


def test_no_node_of_another_region_runs_while_one_is_computed_again():  # case F12
    log: list[str] = []

    def region(t: Any) -> Any:
        log.append("again" if is_recomputing() else "first")
        h = t.sin().exp()
        (inner,) = grad((h * h).sum(), t, retain_graph=True)
        log.append("end")
        return h.tanh() * inner.detach()

    x = leaf()
    y = checkpoint(region, x)
    foreign = x.cos()
    foreign.register_hook(lambda g: log.append("foreign"))
    (y + foreign.exp()).sum().backward()
    again = log.index("again")
    assert "foreign" in log
    assert "foreign" not in log[again : log.index("end", again)]


def test_pytorchs_path_gives_the_same_function():
    assert checkpoint_by_pytorchs_path is checkpoint


def test_without_grad_mode_the_function_just_runs():  # spec 9.3
    function, x = Counted(body), leaf()
    with stowgrad.no_grad():
        y = checkpoint(function, x)
    assert not y.requires_grad
    assert function.runs == 1


def test_nothing_that_requires_grad_gives_no_graph():
    y = checkpoint(body, stowgrad.tensor(VALUES))
    assert not y.requires_grad


def test_outputs_are_those_of_real_ops():  # spec 9.5
    x = leaf()
    y = checkpoint(lambda t: t.exp() * 2, x)
    assert y.grad_fn.name() == "MulBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "ExpBackward0"


@pytest.mark.parametrize("result", [(), {}, None, 3], ids=str)
def test_any_result_comes_back(result: Any):
    assert checkpoint(lambda x: result, leaf()) is result


@pytest.mark.parametrize("early_stop", [True, False])
def test_five_levels_deep(early_stop: bool):  # case F7, spec 9.20
    def nested(t: Any, depth: int, call: Any) -> Any:
        h = t.sin()
        return ((call(nested, h, depth - 1, call) if depth > 1 else h) * t).tanh()

    def again(function: Any, *args: Any) -> Any:
        return checkpoint(function, *args, early_stop=early_stop)

    x, plain = leaf(), leaf()
    y, expected = again(nested, x, 5, again).sum(), nested(plain, 5, lambda f, *args: f(*args)).sum()
    for _ in range(2):
        y.backward(retain_graph=True)
        expected.backward(retain_graph=True)
    assert bits(x.grad) == bits(plain.grad)
    slopes = []
    for value, at in ((y, x), (expected, plain)):
        (first,) = grad(value, at, create_graph=True)
        (second,) = grad(first.square().sum(), at, create_graph=True)
        (third,) = grad(second.sum(), at)
        slopes.append((bits(first), second.detach().numpy(), third.numpy()))
    assert slopes[0][0] == slopes[1][0]
    for got, wanted in zip(slopes[0][1:], slopes[1][1:], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10)


def test_results_in_a_dict_have_gradients():  # spec 9.28, P15: the reentrant variant lost them
    x = leaf()
    parts = checkpoint(lambda t: {"a": t.exp(), "b": [t.sin(), t]}, x)
    (parts["a"] * parts["b"][0]).sum().backward()
    plain = leaf()
    (plain.exp() * plain.sin()).sum().backward()
    assert bits(x.grad) == bits(plain.grad)


def test_gradients_of_weights_without_an_input_that_requires_grad():  # case F10
    layer = nn.Linear(5, 3)
    x = stowgrad.tensor(VALUES.astype(np.float32))
    checkpoint(layer, x).square().sum().backward()
    got = bits(layer.weight.grad)
    layer.zero_grad()
    layer(x).square().sum().backward()
    assert bits(layer.weight.grad) == got


def test_weights_unfrozen_in_between_are_noticed():  # spec 9.17
    layer = nn.Linear(5, 5).double()
    layer.weight.requires_grad_(False)
    x = leaf()
    y = checkpoint(lambda t: layer(t).tanh(), x)
    layer.weight.requires_grad_(True)
    with pytest.raises(stowgrad.checkpoint.CheckpointError, match="different"):
        y.sum().backward()


def test_arguments_at_any_depth():
    Pair = namedtuple("Pair", ["left", "right"])
    seen: list[Any] = []

    def function(x: Any, pair: Any, *, table: Any, scale: float) -> Any:
        seen.append((type(pair), type(table), type(table["rows"]), scale))
        return (x * pair.left).exp() * pair.right[0] + table["rows"][1].sin() * scale

    inputs = [leaf() for _ in range(4)]
    a, b, c, d = inputs
    checkpoint(function, a, Pair(b, (c,)), table={"rows": [None, d]}, scale=2.0).sum().backward()
    got = [bits(x.grad) for x in inputs]
    plain = [leaf() for _ in range(4)]
    a, b, c, d = plain
    function(a, Pair(b, (c,)), table={"rows": [None, d]}, scale=2.0).sum().backward()
    assert got == [bits(x.grad) for x in plain]
    assert seen[0] == seen[1] == seen[2] == (Pair, dict, list, 2.0)


def test_the_second_run_gets_the_same_tensors_and_grad_mode():  # spec 9.6
    x, calls = leaf(), []

    def function(t: Any) -> Any:
        calls.append((t is x, stowgrad.is_grad_enabled(), is_recomputing()))
        with stowgrad.no_grad():
            constant = t * 2
        return constant * t.exp()

    y = checkpoint(function, x)
    with stowgrad.no_grad():
        y.sum().detach()
    y.sum().backward()
    assert calls == [(True, True, False), (True, True, True)]
    assert not is_recomputing()


def test_hooks_inside_see_gradients_once():  # case F11, spec 9.29
    w, fired = leaf(), []
    w.register_hook(fired.append)
    x = leaf()
    h = checkpoint(lambda t: (t * w).exp(), x)
    checkpoint(lambda t: (t * w).exp(), h * 0.1).sum().backward()
    assert len(fired) == 1


def test_a_user_function_inside():
    class Cube(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            (again,) = ctx.saved_tensors  # spec 9.12, P16: reading twice in one run is fine
            return g * 3 * x * again

    x = leaf()
    function = Counted(lambda t: Cube.apply(t.sin()).exp())
    checkpoint(function, x).sum().backward()
    plain = leaf()
    Cube.apply(plain.sin()).exp().sum().backward()
    assert bits(x.grad) == bits(plain.grad)
    assert function.runs == 2


def test_a_value_that_is_read_twice_in_a_pass_is_computed_once():
    x = leaf()
    function = Counted(lambda t: t.exp())
    y = checkpoint(function, x)
    (y * y).sum().backward()
    assert function.runs == 2


def test_in_a_thread_other_than_the_forwards():  # spec 9.25
    from concurrent.futures import ThreadPoolExecutor

    x = leaf()
    y = checkpoint(lambda t: nn.functional.dropout(t.exp(), 0.5), x)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(y.sum().backward).result()
    assert bits(x.grad) == bits(y)


# -- how often it runs -------------------------------------------------------------------------------------------------


def test_nothing_saved_is_never_computed_again():  # spec 9.9
    function = Counted(lambda t: t + 1)
    x = leaf()
    checkpoint(function, x).sum().backward()
    assert function.runs == 1
    assert x.grad.tolist() == np.ones((6, 5)).tolist()


@pytest.mark.parametrize("passes", [1, 2, 4])
def test_runs_once_more_for_each_pass(passes: int):  # spec 9.10
    function, x = Counted(body), leaf()
    y = checkpoint(function, x).sum()
    first = None
    for number in range(passes):
        x.grad = None
        y.backward(retain_graph=number < passes - 1)
        first = first or bits(x.grad)
        assert bits(x.grad) == first
    assert function.runs == 1 + passes


def test_a_second_pass_over_a_released_graph_is_an_error():
    y = checkpoint(body, leaf()).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def _nested(passes: int) -> tuple[int, int, bytes]:
    inner = Counted(lambda t: t.sin().exp())
    outer = Counted(lambda t: checkpoint(inner, t * 1.5).tanh() * t)
    x = leaf()
    y = checkpoint(outer, x).sum()
    for number in range(passes):
        y.backward(retain_graph=number < passes - 1)
    return outer.runs, inner.runs, bits(x.grad)


def test_nested_regions_run_a_known_number_of_times():  # case F7, spec 9.20
    plain = leaf()
    y = ((plain * 1.5).sin().exp().tanh() * plain).sum()
    y.backward(retain_graph=True)
    assert _nested(1) == (2, 3, bits(plain.grad))
    y.backward()
    assert _nested(2) == (3, 5, bits(plain.grad))


def test_three_levels_and_two_regions_in_one():
    def two(t: Any) -> Any:
        return checkpoint(body, checkpoint(lambda s: s.sin() * s, t))

    x, plain = leaf(), leaf()
    checkpoint(lambda t: checkpoint(two, t.tanh()).exp(), x).sum().backward()
    t = plain.tanh()
    body(t.sin() * t).exp().sum().backward()
    assert bits(x.grad) == bits(plain.grad)


def test_second_derivatives():  # spec 9.5
    def slope(y: Any, x: Any) -> tuple[bytes, bytes]:
        (first,) = grad(y.sum(), x, create_graph=True)
        (second,) = grad((first * first).sum(), x)
        return bits(first), bits(second)

    x, plain = leaf(), leaf()
    function = Counted(body)
    assert slope(checkpoint(function, x), x) == slope(body(plain), plain)
    assert function.runs == 3


def test_a_partial_pass():  # spec 9.5, 9.13
    x, plain = leaf(), leaf()
    a, b = checkpoint(lambda t: (t.exp(), t.sin().exp()), x)
    a.sum().backward()
    plain.exp().sum().backward()
    assert bits(x.grad) == bits(plain.grad)
    b.sum().backward()
    plain.sin().exp().sum().backward()
    assert bits(x.grad) == bits(plain.grad)


def test_grad_for_a_value_inside_needs_only_what_leads_there():
    x = leaf()
    kept: list[Any] = []

    def function(t: Any) -> Any:
        h = t.sin()
        if not is_recomputing():
            kept.append(h)
        return h.exp().tanh()

    y = checkpoint(function, x)
    (got,) = grad(y.sum(), kept[0])
    h = leaf().sin()
    (expected,) = grad(h.exp().tanh().sum(), h)
    assert bits(got) == bits(expected)


def test_backward_inside_the_function():
    x = leaf()

    def function(t: Any) -> Any:
        w = stowgrad.tensor(VALUES, requires_grad=True)
        (inner,) = grad((w * w * t.detach()).exp().sum(), w)
        return (t * inner).sin()

    checkpoint(function, x).sum().backward()
    plain = leaf()
    function(plain).sum().backward()
    assert bits(x.grad) == bits(plain.grad)


# -- hooks -------------------------------------------------------------------------------------------------------------


def test_hooks_inside_the_region_win():  # spec 9.21
    packed: list[Any] = []
    function = Counted(lambda t: t)

    def region(t: Any) -> Any:
        function(t)
        with saved_tensors_hooks(lambda s: packed.append(s) or s, lambda s: s):
            return t.exp()

    x = leaf()
    checkpoint(region, x).sum().backward()
    assert len(packed) == 1
    assert function.runs == 1


def test_hooks_outside_see_only_the_arguments():
    packed: list[Any] = []
    x, w = leaf(), leaf()
    with saved_tensors_hooks(lambda s: packed.append(s) or s, lambda s: s):
        y = checkpoint(lambda t, more: (t * w).exp() * more["w"], x, {"w": w})
    assert [p is e for p, e in zip(packed, (x, w), strict=True)] == [True, True]
    y.sum().backward()
    assert len(packed) == 2


def test_a_backward_in_inference_mode_recomputes_as_in_forward():  # spec 7.9 9.7, P12
    x = leaf()
    y = checkpoint(body, x).sum()
    with stowgrad.inference_mode():
        y.backward()
    expected = leaf()
    body(expected).sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()
    assert x.grad.is_inference()


def test_hooks_that_are_disabled_in_backward_only_do_not_disturb_the_second_run():  # spec 4.28, P12
    def hooked(x: Any) -> Any:
        with saved_tensors_hooks(lambda t: t, lambda t: t):
            return body(x)

    x = leaf()
    y = checkpoint(lambda x: hooked(x).sin(), x).sum()
    with stowgrad.autograd.graph.disable_saved_tensors_hooks("not in backward"):
        y.backward()
    assert x.grad is not None


def test_running_statistics_move_once():  # case E7, spec 9.26, P12; twice in PyTorch 2.13
    model = stowgrad.nn.Sequential(stowgrad.nn.Conv2d(2, 3, 3), stowgrad.nn.BatchNorm2d(3), stowgrad.nn.ReLU())
    x = stowgrad.tensor(np.random.default_rng(0).normal(size=(4, 2, 6, 6)).astype(np.float32))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model(x).sum().backward()
    expected = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    gradients = [parameter.grad.numpy().copy() for parameter in model.parameters()]
    model.load_state_dict(before)
    model.zero_grad()
    checkpoint(model, x).sum().backward()
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), expected[name], err_msg=name)
    for parameter, wanted in zip(model.parameters(), gradients, strict=True):
        np.testing.assert_array_equal(parameter.grad.numpy(), wanted)
