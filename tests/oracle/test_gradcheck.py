"""`gradcheck` beside PyTorch's: the same programs pass and fail, with the same kind of error."""

from __future__ import annotations

import warnings

import pytest
import torch

import stowgrad

LIBRARIES = {"stowgrad": stowgrad, "torch": torch}


def leaf(lib, *values):
    return lib.tensor(list(values) or [1.0, 2.0], dtype=lib.float64, requires_grad=True)


def custom(lib, forward, backward):
    methods = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    return type("Made", (lib.autograd.Function,), methods).apply


def without_materializing(ctx, x):
    ctx.set_materialize_grads(False)
    return x * 2


def refuses_none(ctx, g):
    if g is None:  # other errors than this kind pass through PyTorch's gradcheck as they are
        raise RuntimeError("no None, please")
    return g * 2


def intermediate(ctx, x):
    square = x * x
    ctx.save_for_backward(square)
    return square * x


CASES = {
    "right": lambda lib: (lambda x: (x * x).exp(), leaf(lib)),
    "two outputs": lambda lib: (lambda x: (x.sin(), x.sum()), leaf(lib)),
    "wrong": lambda lib: (custom(lib, lambda ctx, x: x * 2, lambda ctx, g: g), leaf(lib)),
    "constant": lambda lib: (lambda x: lib.ones(2, dtype=lib.float64), leaf(lib)),
    "detached": lambda lib: (lambda x: x.detach(), leaf(lib)),
    "no gradient wanted": lambda lib: (lambda x: x * 2, lib.ones(2, dtype=lib.float64)),
    "stride 0": lambda lib: (lambda x: x * 2, lib.ones(1, dtype=lib.float64).expand(2).requires_grad_()),
    "undefined": lambda lib: (custom(lib, without_materializing, refuses_none), leaf(lib)),
    "undefined, taken": lambda lib: (
        custom(lib, without_materializing, lambda ctx, g: None if g is None else g * 2),
        leaf(lib),
    ),
    "no scaling": lambda lib: (custom(lib, lambda ctx, x: x + 1, lambda ctx, g: g * 0 + 1), leaf(lib)),
    "single precision": lambda lib: (lambda x: x * 2, lib.ones(2, requires_grad=True)),
    "intermediate": lambda lib: (
        custom(lib, intermediate, lambda ctx, g: g * 3 * ctx.saved_tensors[0]),
        leaf(lib),
    ),
}


def outcome(lib, check, case, **options):
    """What a check returns, or the kind of error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f, x = CASES[case](lib)
        try:
            return check(lib)(f, (x,), **options)
        except Exception as error:  # noqa: BLE001  # it is compared
            return type(error).__name__


@pytest.mark.parametrize("fast_mode", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_gradcheck_decides_as_pytorch_does(case, fast_mode):  # spec 10.5
    got, expected = (
        outcome(lib, lambda m: m.autograd.gradcheck, case, fast_mode=fast_mode) for lib in (stowgrad, torch)
    )
    assert got == expected


@pytest.mark.parametrize("case", ["right", "two outputs", "wrong", "intermediate"])
def test_gradgradcheck_decides_as_pytorch_does(case):  # spec 10.6
    got, expected = (outcome(lib, lambda m: m.autograd.gradgradcheck, case) for lib in (stowgrad, torch))
    assert got == expected


@pytest.mark.parametrize("lib", LIBRARIES.values(), ids=LIBRARIES.keys())
def test_false_instead_of_an_error(lib):  # spec 10.5
    assert outcome(lib, lambda m: m.autograd.gradcheck, "wrong", raise_exception=False) is False
