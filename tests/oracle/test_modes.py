"""Inference mode, disabled hooks, anomaly mode and Functions beside PyTorch's: what comes out, or the kind of error."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import stowgrad


def leaf(lib):
    return lib.tensor([1.0, 2.0], requires_grad=True)


def made(lib):
    with lib.inference_mode():
        return lib.ones(2)


def function(lib, **methods):
    flags = {name: value for name, value in methods.items() if isinstance(value, bool)}
    functions = {name: staticmethod(value) for name, value in methods.items() if name not in flags}
    return type("Made", (lib.autograd.Function,), functions | flags).apply


def inside(lib, run):
    with lib.inference_mode():
        return run(lib)


def describe(t):
    return (t.tolist(), t.requires_grad, t.is_leaf, t.is_inference())


def normal_view(lib):
    x = lib.ones(2)
    view = inside(lib, lambda lib: x.view(1, 2))
    return view.is_inference(), view._version


def enabled_inside(lib):
    with lib.inference_mode(), lib.enable_grad():
        return (lib.is_grad_enabled(), lib.is_inference_mode_enabled(), describe(leaf(lib) * 2))


def normal_inside(lib):
    with lib.no_grad(), lib.inference_mode(), lib.inference_mode(False):
        return (lib.is_grad_enabled(), lib.is_inference_mode_enabled(), describe(leaf(lib) * 2))


def gradient_inside(lib):
    x = leaf(lib)
    y = (x * x).sum()
    with lib.inference_mode():
        y.backward()
    return describe(x.grad)


def disabled(lib, run):
    with lib.autograd.graph.disable_saved_tensors_hooks("no hooks"):
        return run(lib)


def hooks(lib):
    return lib.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)


def entered(lib):
    with hooks(lib):
        return 0


def disabled_under_hooks(lib):
    with hooks(lib):
        return disabled(lib, lambda lib: 0)


def nan(lib, **options):
    x = lib.tensor([0.0], requires_grad=True)
    with lib.autograd.set_detect_anomaly(True, **options):
        y = (x * 0).sqrt()
        y.backward()
    return bool(np.isnan(x.grad.item()))


def mutated(lib):
    x = leaf(lib)
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        h = x * 3
        y = (h * h).sum() + h.exp().sum()
        h.add_(100)
        y.backward()
    return np.round(x.grad.tolist(), 2).tolist()


def nested_mutation(lib):
    with lib.autograd.graph.allow_mutation_on_saved_tensors():
        with lib.autograd.graph.allow_mutation_on_saved_tensors():
            return 0


def square_forward(ctx, x):
    ctx.save_for_backward(x)
    return x * x


def square_backward(ctx, g):
    return g * 2 * ctx.saved_tensors[0]


def once(lib):
    backward = lib.autograd.function.once_differentiable(square_backward)
    x = leaf(lib)
    seed = lib.ones(2, requires_grad=True)
    made = function(lib, forward=square_forward, backward=backward)
    return x, lib.autograd.grad(made(x), x, seed, create_graph=True)[0]


def cleared(lib):
    return function(lib, forward=square_forward, backward=square_backward, clear_saved_tensors_on_access=True)(
        leaf(lib)
    )


def twice(y):
    y.sum().backward(retain_graph=True)
    y.sum().backward()


def in_two_steps(lib, *args, **kwargs):
    def setup_context(ctx, inputs, output):
        ctx.n = inputs[1]
        ctx.save_for_backward(inputs[0])

    def backward(ctx, g):
        return g * ctx.n * ctx.saved_tensors[0], None

    x = leaf(lib)
    y = function(lib, forward=lambda x, n=2: x * x * n / 2, setup_context=setup_context, backward=backward)
    y(x, *args, **kwargs).sum().backward()
    return x.grad.tolist()


def saves_what_it_returns(lib):
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    return function(lib, forward=lambda x: x, setup_context=setup_context, backward=lambda ctx, g: g)(leaf(lib))


def views(lib):
    x = leaf(lib)
    y, z = function(lib, forward=lambda ctx, x: (x, x.view(1, 2)), backward=lambda ctx, g, h: g + h.view(2))(x)
    return [(t._is_view(), t._base is x, t.requires_grad, t.is_leaf) for t in (y, z)]


def written_view(lib):
    y = function(lib, forward=lambda ctx, x: x.view(1, 2), backward=lambda ctx, g: g.view(2))(leaf(lib) * 1)
    y.add_(1)


PROGRAMS = {
    "result": lambda lib: describe(inside(lib, lambda lib: leaf(lib) * 2)),
    "leaf": lambda lib: describe(inside(lib, leaf)),
    "view": lambda lib: describe(inside(lib, lambda lib: lib.ones(2)[0:1])),
    "view of a normal tensor": normal_view,
    "clone outside": lambda lib: describe(made(lib).clone()),
    "op outside": lambda lib: describe(made(lib) * 2),
    "version": lambda lib: made(lib)._version,
    "in place outside": lambda lib: made(lib).add_(1),
    "requires grad outside": lambda lib: made(lib).requires_grad_(),
    "saved": lambda lib: leaf(lib) * made(lib),
    "not saved": lambda lib: describe(leaf(lib) + made(lib)),
    "enable_grad inside": enabled_inside,
    "False inside": normal_inside,
    "gradient inside": gradient_inside,
    "decorated": lambda lib: lib.inference_mode(lib.is_inference_mode_enabled)(),
    "hooks where disabled": lambda lib: disabled(lib, entered),
    "disabled under hooks": disabled_under_hooks,
    "NaN": nan,
    "NaN unchecked": lambda lib: nan(lib, check_nan=False),
    "mutation": mutated,
    "nested mutation": nested_mutation,
    "once": lambda lib: once(lib)[1].tolist(),
    "once, backward": lambda lib: once(lib)[1].sum().backward(),
    "once, grad": lambda lib: lib.autograd.grad(once(lib)[1].sum(), leaf(lib)),
    "cleared": lambda lib: twice(cleared(lib)),
    "two steps": in_two_steps,
    "two steps, position": lambda lib: in_two_steps(lib, 4),
    "two steps, keyword": lambda lib: in_two_steps(lib, n=4),
    "saves what it returns": saves_what_it_returns,
    "views": views,
    "written view": written_view,
}


def outcome(lib, name):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return PROGRAMS[name](lib)
        except Exception as error:  # noqa: BLE001  # it is compared
            return type(error).__name__


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_do_what_they_do_in_pytorch(name):  # spec 3.17 4.28 4.29 6.3 6.7 6.17 6.19 7.35 8.4
    assert outcome(stowgrad, name) == outcome(torch, name)
