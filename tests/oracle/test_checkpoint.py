"""Checkpoints beside PyTorch's: the same gradients, as many runs, the same nodes, and errors of the same type."""

from __future__ import annotations

import functools
from collections import namedtuple
from importlib import import_module

import numpy as np
import pytest
import torch

import stowgrad

BOTH = [torch, stowgrad]
VALUES = np.random.default_rng(0).normal(size=(5, 5))
Pair = namedtuple("Pair", ["left", "right"])


def leaf(lib, values=VALUES):
    return lib.tensor(values, requires_grad=True)


def tools(lib):
    return import_module(f"{lib.__name__}.utils.checkpoint")


def region_of(lib, **options):
    return functools.partial(tools(lib).checkpoint, use_reentrant=False, **options)


def same(program):
    """The result of a program in both libraries: numbers exact, arrays nearly."""
    expected, got = program(torch), program(stowgrad)
    assert got.keys() == expected.keys()
    for key, value in expected.items():
        if isinstance(value, torch.Tensor):
            np.testing.assert_allclose(got[key].detach().numpy(), value.detach().numpy(), rtol=1e-10, err_msg=key)
        else:
            assert got[key] == value, key


class Counted:
    """A function that counts its runs."""

    def __init__(self, function):
        self.function, self.runs = function, 0

    def __call__(self, *args, **kwargs):
        self.runs += 1
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("passes", [1, 2, 3])
def test_runs_of_nested_regions(passes, early_stop):  # spec 9.10, 9.14, 9.20, case F7
    def program(lib):
        region = region_of(lib, early_stop=early_stop)
        inner = Counted(lambda t: t.sin().exp())
        outer = Counted(lambda t: region(inner, t * 1.5).tanh() * t)
        x = leaf(lib)
        y = region(outer, x).sum()
        for _ in range(passes):
            y.backward(retain_graph=True)
        return {"outer": outer.runs, "inner": inner.runs, "grad": x.grad}

    same(program)


def test_results_and_their_nodes():  # spec 9.5
    def program(lib):
        region = region_of(lib)
        x = leaf(lib)
        made = region(lambda t: {"a": (t.exp(), None), "b": [t.sin().tanh(), 3, t]}, x)
        (made["a"][0] * made["b"][0] + made["b"][2]).sum().backward()
        return {
            "nodes": [made["a"][0].grad_fn.name(), made["b"][0].grad_fn.name()],
            "rest": [made["a"][1], made["b"][1]],
            "grad": x.grad,
        }

    same(program)


def test_passes_over_parts_of_it():  # spec 9.5, 9.13
    def program(lib):
        region = region_of(lib)
        x, w, inside = leaf(lib), leaf(lib), []

        def function(t):
            h = t.sin() @ w
            if not inside:
                inside.append(h)
            return h.exp(), h.tanh() * w

        a, b = region(function, x)
        found = {"inner": lib.autograd.grad(a.sum(), inside[0], retain_graph=True)[0]}
        a.sum().backward(retain_graph=True, inputs=[w])
        found["w"], found["no x"] = w.grad.clone(), x.grad
        b.sum().backward(retain_graph=True)
        (a.sum() + b.sum()).backward()
        return {**found, "all of w": w.grad, "all of x": x.grad}

    same(program)


def test_higher_derivatives():  # spec 9.5
    def program(lib):
        region = region_of(lib)
        x = leaf(lib)
        y = region(lambda t: region(lambda s: (s.sin() * s).exp(), t.tanh()) @ t, x).sum()
        (first,) = lib.autograd.grad(y, x, create_graph=True)
        (second,) = lib.autograd.grad(first.square().sum(), x, create_graph=True)
        (third,) = lib.autograd.grad(second.sum(), x)
        return {"first": first, "second": second, "third": third}

    same(program)


def test_hooks_inside_and_on_what_is_shared():  # cases F11, F5, spec 9.21, 9.29
    def program(lib):
        region = region_of(lib)
        x, w, log = leaf(lib), leaf(lib), []
        w.register_hook(lambda grad: log.append("w"))

        def function(t):
            h = (t @ w).tanh()
            h.register_hook(lambda grad: log.append("h") or grad * 2)
            with lib.autograd.graph.saved_tensors_hooks(lambda s: log.append("pack") or s, lambda s: s):
                return h.exp()

        region(function, region(function, x) * 0.1).sum().backward()
        return {"log": log, "x": x.grad, "w": w.grad}

    same(program)


def test_arguments_of_all_kinds():
    def program(lib):
        region = region_of(lib)
        a, b, c, d = (leaf(lib, VALUES + number) for number in range(4))

        def function(t, pair, none, *, table, scale=1.0):
            assert none is None
            return (t * pair.left * 0.1).exp() * pair.right[0] + table["rows"][1].sin() * scale

        region(function, a, Pair(b, (c,)), None, table={"rows": [None, d]}, scale=2.0).sum().backward()
        return {str(number): value.grad for number, value in enumerate((a, b, c, d))}

    same(program)


def test_custom_functions_and_writes_inside():
    def program(lib):
        class Scale(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(x, y)
                return x * y

            @staticmethod
            def backward(ctx, grad):
                x, y = ctx.saved_tensors
                return grad * y, grad * x

        region = region_of(lib)
        x = leaf(lib)

        def function(t):
            h = (t * 2.0).sin_()
            h[0] = t[1].exp()
            h.mul_(t)
            return Scale.apply(h.clone().relu_(), t)

        region(function, x).sum().backward()
        return {"x": x.grad}

    same(program)


def test_saved_hooks_outside_see_the_arguments():  # spec 5.8, 9.6
    def program(lib):
        region = region_of(lib)
        x, w, seen = leaf(lib), leaf(lib), []
        with lib.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t is x) or t, lambda t: t):
            y = region(lambda t: (t @ w).exp(), x)
        y.sum().backward()
        return {"seen": seen, "x": x.grad, "w": w.grad}

    same(program)


def _segments(lib, segments, count=7):
    again = []

    def layer(number, t):
        again.append(number)
        return t.sin()

    x = leaf(lib)
    chain = [functools.partial(layer, number) for number in range(count)]
    y = tools(lib).checkpoint_sequential(chain, segments, x, use_reentrant=False)
    again.clear()
    y.sum().backward()
    return again, x.grad


@pytest.mark.parametrize("segments", [1, 2, 4, 6])
def test_segments(segments):  # spec 9.31: gradients are PyTorch's, what is left over is spread where it puts it last
    (theirs, expected), (ours, got) = (_segments(lib, segments) for lib in BOTH)
    np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12)
    assert len(ours) >= len(theirs)
    assert set(ours) >= set(theirs)


def _contexts(lib):
    import contextlib

    return lambda: (contextlib.nullcontext(), contextlib.nullcontext())


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (ValueError, lambda lib: region_of(lib, determinism_check="strict")(lambda t: t, leaf(lib))),
        (ValueError, lambda lib: region_of(lib, debug=True, context_fn=_contexts(lib))(lambda t: t, leaf(lib))),
        (ValueError, lambda lib: tools(lib).checkpoint_sequential([], 1, leaf(lib), use_reentrant=False, retain=1)),
        (TypeError, lambda lib: tools(lib).create_selective_checkpoint_contexts(3)),
        (KeyError, lambda lib: region_of(lib)(lambda t: {}["missing"], leaf(lib))),
    ],
    ids=["check", "debug", "segments", "policy", "the function's"],
)
def test_errors_of_the_call(kind, call):  # spec 9.2, 9.4, 9.31, 9.32
    for lib in BOTH:
        with pytest.raises(kind):
            call(lib)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda t: t.exp().sin().exp(), lambda t: t.exp()),
        (lambda t: t.exp(), lambda t: t[:2].exp()),
        (lambda t: t.exp(), lambda t: t.to(dtype_of(t, "float32")).exp()),
    ],
    ids=["fewer", "shape", "dtype"],
)
def test_errors_of_the_second_run(first, second):  # spec 9.16, case E18
    for lib in BOTH:
        calls = []

        def function(t, calls=calls):
            calls.append(None)
            return first(t) if len(calls) == 1 else second(t)

        y = region_of(lib)(function, leaf(lib))
        with pytest.raises(tools(lib).CheckpointError):
            y.sum().backward()


def dtype_of(tensor, name):
    return getattr(torch if isinstance(tensor, torch.Tensor) else stowgrad, name)


def test_the_decisions_have_pytorchs_names_and_numbers():  # spec 9.32
    theirs = {decision.name: decision.value for decision in tools(torch).CheckpointPolicy}
    assert {decision.name: decision.value for decision in tools(stowgrad).CheckpointPolicy} == theirs


def test_selective_checkpoints():  # spec 9.32
    def program(lib):
        policies = tools(lib)
        asked = []

        def policy(ctx, op, *args, **kwargs):
            asked.append(ctx.is_recompute)
            return policies.CheckpointPolicy.MUST_SAVE if "mm" in str(op) or "matmul" in str(op) else False

        contexts = functools.partial(policies.create_selective_checkpoint_contexts, policy)
        x, w = leaf(lib), leaf(lib)
        y = region_of(lib, context_fn=contexts)(lambda t: ((t @ w).tanh() @ w).sin().sum(), x)
        y.backward()
        return {"first": asked[0], "x": x.grad, "w": w.grad}

    same(program)
