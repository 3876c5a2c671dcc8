"""Saved slots beside PyTorch's: names and values, kinds of error."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import stowgrad

POSITIVE = np.array([[0.5, 1.0], [2.0, 3.0]])

# Ops whose node keeps the same values as PyTorch's, and the slots to compare.
SAME = {
    "mul": (lambda m, x, y: x * y, ("self", "other")),
    "div": (lambda m, x, y: x / y, ("self", "other")),
    "pow": (lambda m, x, y: x**y, ("self", "exponent", "result")),
    "pow number": (lambda m, x, y: x**3, ("self",)),
    "exp": (lambda m, x, y: x.exp(), ("result",)),
    "log": (lambda m, x, y: x.log(), ("self",)),
    "sqrt": (lambda m, x, y: x.sqrt(), ("result",)),
    "rsqrt": (lambda m, x, y: x.rsqrt(), ("result",)),
    "reciprocal": (lambda m, x, y: x.reciprocal(), ("result",)),
    "sin": (lambda m, x, y: x.sin(), ("self",)),
    "cos": (lambda m, x, y: x.cos(), ("self",)),
    "tanh": (lambda m, x, y: x.tanh(), ("result",)),
    "sigmoid": (lambda m, x, y: x.sigmoid(), ("result",)),
    "erf": (lambda m, x, y: m.erf(x), ("self",)),
    "gelu": (lambda m, x, y: m.nn.functional.gelu(x), ("self",)),
    "where": (lambda m, x, y: m.where(x > 1, x, y), ("condition",)),
    "softmax": (lambda m, x, y: m.softmax(x, 0), ("result",)),
    "log_softmax": (lambda m, x, y: m.nn.functional.log_softmax(x, 0), ("result",)),
    "layer_norm": (
        lambda m, x, y: m.nn.functional.layer_norm(x, (2,), y[0], y[1]),
        ("input", "weight", "bias", "result1", "result2"),
    ),
    "embedding": (lambda m, x, y: m.nn.functional.embedding(m.tensor([1, 0, 1]), x), ("indices",)),
}


def leaves(lib):
    return [lib.tensor(array, requires_grad=True) for array in (POSITIVE, POSITIVE[::-1].copy())]


def node_of(lib, case):
    x, y = leaves(lib)
    return SAME[case][0](lib, x * 1, y * 1).grad_fn


def values(saved):
    return None if saved is None else np.asarray(saved.detach().numpy()).ravel()


@pytest.mark.parametrize("case", SAME)
def test_slots_have_pytorch_s_names_and_values(case):  # spec 4.23, surface 6
    ours, theirs = node_of(stowgrad, case), node_of(torch, case)
    assert ours.name() == theirs.name() or case == "pow"  # PyTorch counts overloads
    for slot in SAME[case][1]:
        got, expected = values(getattr(ours, f"_saved_{slot}")), values(getattr(theirs, f"_saved_{slot}"))
        np.testing.assert_allclose(got, expected, rtol=1e-12, err_msg=slot)
        assert hasattr(ours, f"_raw_saved_{slot}")
        assert f"_saved_{slot}" in dir(ours)


def attempt(run):
    """The kind of error, or None."""
    try:
        run()
    except Exception as error:  # noqa: BLE001  # it is compared
        return type(error).__name__
    return None


def same(value):
    return value


def released(lib):
    y = (leaves(lib)[0] * 1).log()
    y.sum().backward()
    return y


def packed(lib):
    with lib.autograd.graph.saved_tensors_hooks(same, same):
        return (leaves(lib)[0] * 1).log()


def logarithm(lib):
    return (leaves(lib)[0] * 1).log()


def exponential(lib):
    return leaves(lib)[0].exp()


def twice(lib):
    return leaves(lib)[0] * 2


# What makes a tensor (PyTorch crashes if its node dies before the place of a slot does), and what to do with its node.
ATTEMPTS = {
    "read released": (released, lambda n: n._saved_self),
    "unpack released": (released, lambda n: n._raw_saved_self.unpack()),
    "register released": (released, lambda n: n._raw_saved_self.register_hooks(same, same)),
    "register over a pair": (packed, lambda n: n._raw_saved_self.register_hooks(same, same)),
    "register on None": (twice, lambda n: n._raw_saved_self.register_hooks(same, same)),
    "register on a number": (twice, lambda n: n._raw_saved_other.register_hooks(same, same)),
    "register no function": (logarithm, lambda n: n._raw_saved_self.register_hooks(1, same)),
    "unpack an output": (exponential, lambda n: n._raw_saved_result.unpack()),
    "another slot": (exponential, lambda n: n._saved_self),
}


@pytest.mark.parametrize("case", ATTEMPTS)
def test_errors_are_of_the_same_kind(case):  # spec 4.23 4.25 4.26 4.27
    make, use = ATTEMPTS[case]
    ours, theirs = make(stowgrad), make(torch)
    assert attempt(lambda: use(ours.grad_fn)) == attempt(lambda: use(theirs.grad_fn))


@pytest.mark.parametrize("lib", [stowgrad, torch], ids=["stowgrad", "torch"])
def test_hooks_of_one_slot(lib):  # spec 4.24
    seen = []
    h = leaves(lib)[0] * 1
    y = h.log()
    place = y.grad_fn._raw_saved_self
    place.register_hooks(lambda t: seen.append((t is h, t.requires_grad)) or t.clone(), lambda t: t * 2)
    assert seen == [(False, False)]
    assert place.unpack_hook is not None
    (g,) = lib.autograd.grad(y.sum(), h)
    np.testing.assert_allclose(np.asarray(g), 1 / (2 * POSITIVE))
