"""What an error of a forward op keeps of what the op had made: nothing. (What it was given: test_entries.py.)"""

from __future__ import annotations

import gc

import pytest

import stowgrad
from stowgrad.memory import memory_allocated
from stowgrad.saved_tensors import saved_tensors_hooks

ROUNDS = 100
LARGE = 4096  # elements: pooled
SMALL = 16  # adopted, on the short way


@pytest.fixture(autouse=True)
def _without_the_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def refused(tensor):
    del tensor  # a frame of the user's, too
    raise KeyError("no")


def kept_error(call, *args):
    try:
        call(*args)
    except Exception as error:  # noqa: BLE001
        del call, args  # this frame is the user's: what it holds is not the library's to drop
        return error
    raise AssertionError("no error")


def holds_operands_only(call, *operands):
    """Errors of ``call`` are kept for many rounds: no more memory is in use than before the first."""
    kept = [kept_error(call, *operands)]
    before = memory_allocated()
    for number in range(ROUNDS):
        kept.append(kept_error(call, *operands))
        assert memory_allocated() == before, f"after round {number}"
    return kept


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_a_pack_hook_that_fails(size):  # P10, spec 12.5
    x, y = stowgrad.ones(size, requires_grad=True), stowgrad.ones(size, requires_grad=True)

    def product():
        with saved_tensors_hooks(refused, refused):
            return x * y

    def unary():
        with saved_tensors_hooks(refused, refused):
            return x.tanh()

    for call in (product, unary):
        assert {type(error) for error in holds_operands_only(call)} == {KeyError}


def test_shapes_that_do_not_fit():  # P10, spec 12.5
    x, y = stowgrad.ones(8, LARGE), stowgrad.ones(8, LARGE)
    errors = holds_operands_only(lambda: x @ y)
    assert {type(error) for error in errors} == {RuntimeError}


def test_a_function_whose_forward_or_saving_fails():  # P10, spec 12.5
    class Fails(stowgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x, saves):
            y = x.exp()
            if saves:
                ctx.save_for_backward(y)
                return y
            del x, y
            raise KeyError("no")

    x = stowgrad.ones(LARGE, requires_grad=True)

    def saving():
        with saved_tensors_hooks(refused, refused):
            return Fails.apply(x, True)

    assert {type(error) for error in holds_operands_only(lambda: Fails.apply(x, False))} == {KeyError}
    assert {type(error) for error in holds_operands_only(saving)} == {KeyError}


def test_a_function_keeps_no_argument():  # P10, spec 12.5
    class Fails(stowgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            del x
            raise KeyError("no")

    before = memory_allocated()
    errors = [kept_error(Fails.apply, stowgrad.ones(LARGE, requires_grad=True)) for _ in range(ROUNDS)]
    assert {type(error) for error in errors} == {KeyError}
    assert memory_allocated() == before


def test_operands_that_were_cast_for_the_op():  # P10, spec 12.5
    x, y = stowgrad.ones(LARGE, dtype=stowgrad.float64), stowgrad.ones(LARGE)
    y.requires_grad_()

    def product():
        with saved_tensors_hooks(refused, refused):
            return x * y

    assert {type(error) for error in holds_operands_only(product)} == {KeyError}
