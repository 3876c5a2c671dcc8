"""What goes wrong in a checkpointed function is said, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.checkpoint import CheckpointError, checkpoint, is_recomputing
from stowgrad.memory import memory_allocated
from stowgrad.offload import save_on_disk
from stowgrad.saved_tensors.state import current

VALUES = np.random.default_rng(0).standard_normal((6, 5))


def leaf() -> Any:
    return stowgrad.tensor(VALUES, requires_grad=True)


def add_one(tensor: Any) -> None:
    with stowgrad.no_grad():
        tensor.add_(1)


def surroundings() -> tuple[Any, ...]:
    return current().grad_enabled, current().hooks, is_recomputing()


class Changing:
    """Other code in the second run than in the first."""

    def __init__(self, first: Any, second: Any) -> None:
        self.functions = [first, second]

    def __call__(self, *args: Any) -> Any:
        return (self.functions.pop(0) if len(self.functions) > 1 else self.functions[0])(*args)


def test_what_can_not_be_called():
    with pytest.raises(TypeError, match="expected a function, got int"):
        checkpoint(3, leaf())  # type: ignore[arg-type]


def test_an_argument_that_the_function_does_not_take():
    with pytest.raises(TypeError, match="no_such"):
        checkpoint(lambda x: x, leaf(), no_such=1)


# -- another second run ------------------------------------------------------------------------------------------------


def test_fewer_values_are_an_error_with_both_counts():  # case E18
    y = checkpoint(Changing(lambda x: x.exp().sin().exp(), lambda x: x.exp()), leaf())
    with pytest.raises(
        CheckpointError, match=r"different number of tensors(.|\n)*forward: 3\n.*recomputed: 1"
    ) as caught:
        y.sum().backward()
    lines = str(caught.value).splitlines()
    assert lines[3].startswith("  first difference, operation 1, in forward: sin, at checkpoint/test_errors.py:")
    assert lines[4] == "  first difference, operation 1, recomputed: nothing more"
    assert [line.split() for line in lines[6:9]] == [
        ["0", "exp", "exp"],
        ["!", "1", "sin", "nothing"],
        ["2", "exp", "nothing"],
    ]


def test_no_values_are_an_error():
    y = checkpoint(Changing(lambda x: x.exp() + 1, lambda x: x + 1), leaf(), determinism_check="none")
    with pytest.raises(CheckpointError, match=r"forward: 1\n.*recomputed: 0"):
        y.sum().backward()


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (lambda x: x.exp(), lambda x: x.sin(), ["exp, at ", "sin, at ", "test_errors.py:"]),
        (lambda x: x.exp(), lambda x: x[:2].exp(), ["[6, 5]", "[2, 5]"]),
        (lambda x: x.exp(), lambda x: x.float().exp(), ["exp, at ", "to_copy, at "]),
        (lambda x: x * x.detach(), lambda x: x.detach() * x, ["'other'", "'self'"]),
    ],
    ids=["op", "shape", "cast", "slot"],
)
def test_another_value_is_an_error_that_names_both(first: Any, second: Any, names: list[str]):  # cases E5, E18
    y = checkpoint(Changing(first, second), leaf())
    with pytest.raises(CheckpointError, match="in forward:") as caught:
        y.sum().backward()
    assert all(name in str(caught.value) for name in names)


def test_the_error_is_a_runtime_error():
    assert issubclass(CheckpointError, RuntimeError)


# -- changes in place --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x, b: checkpoint(lambda t, s: t * s, x, b),
        lambda x, b: checkpoint(lambda t, s: t * s["b"], x, {"b": b}),
        lambda x, b: checkpoint(lambda t, s: t * s[0][0], x, [(b,)]),
        lambda x, b: checkpoint(lambda t, *, s: t * s[1], x, s=[None, b]),
        lambda x, b: checkpoint(lambda t: t * b, x),
        lambda x, b: checkpoint(lambda t: t * b[:, :1].t().t(), x),
    ],
    ids=["argument", "in a dict", "in a tuple in a list", "in a keyword's list", "in a closure", "a view in a closure"],
)
def test_what_the_function_reads_is_protected(call: Any):  # P11, cases E1, E2; PyTorch 2.13: only arguments are
    b = stowgrad.tensor(VALUES)
    y = call(leaf(), b)
    add_one(b)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_parameters_are_protected():  # case E1
    layer = nn.Linear(5, 5).double()
    y = checkpoint(lambda t: layer(t).tanh(), leaf())
    add_one(layer.weight)
    with pytest.raises(
        RuntimeError, match=r"modified by an inplace operation: a tensor of category parameter was read by linear"
    ):
        y.sum().backward()


def test_parameters_that_are_given_other_data_are_protected():  # spec P16
    layer = nn.Linear(5, 5).double()
    y = checkpoint(lambda t: layer(t).tanh(), leaf())
    layer.weight.data = stowgrad.zeros(5, 5, dtype=stowgrad.float64)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_value_that_the_function_changes_itself_is_an_error():
    def function(x: Any) -> Any:
        h = x.sin()
        y = h * h
        add_one(h)
        return y.exp()

    y = checkpoint(function, leaf())
    with pytest.raises(RuntimeError, match="changed by the checkpointed region"):
        y.sum().backward()


def test_what_was_not_read_may_change():
    x = leaf()
    b = stowgrad.tensor(VALUES)
    y = checkpoint(lambda t: (t + b).exp(), x)
    out = checkpoint(lambda t: t.exp(), x)
    add_one(out)  # the value is computed again
    (y + out).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(2 * VALUES) + np.exp(VALUES))


def test_an_argument_that_is_on_disk_may_change():  # spec P1: what was copied at save time is good
    x, plain, b = leaf(), leaf(), stowgrad.tensor(VALUES)
    with save_on_disk(min_bytes=0):
        y = checkpoint(lambda t, s: (t * s).exp(), x, b)
    add_one(b)
    y.sum().backward()
    (plain * stowgrad.tensor(VALUES)).exp().sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


# -- exceptions --------------------------------------------------------------------------------------------------------


def _failing(x: Any) -> Any:
    y = x.exp().sin()
    if y is not None:
        raise ValueError("no")
    return y


def test_an_exception_in_the_first_run_passes_through_and_leaves_nothing(no_collector: None):  # case F5, spec 9.4
    x = leaf()
    before, state = memory_allocated(), surroundings()
    with pytest.raises(ValueError, match="no"):
        checkpoint(_failing, x)
    assert surroundings() == state
    assert memory_allocated() == before
    y = x.exp()
    assert y.grad_fn is not None
    y.sum().backward()


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["ValueError", "KeyboardInterrupt"])
def test_an_exception_in_the_second_run_passes_through_and_leaves_nothing(no_collector: None, error: BaseException):
    def second(x: Any) -> Any:
        y = x.exp().sin()
        if y is not None:
            raise error

    x = leaf()
    first = lambda t: t.exp().sin().exp()  # noqa: E731
    function = Changing(first, second)
    y = checkpoint(function, x).sum()
    before, state = memory_allocated(), surroundings()
    with pytest.raises(type(error)):
        y.backward()
    error.__traceback__ = None  # it holds the frames of the second run
    assert surroundings() == state
    assert memory_allocated() == before
    function.functions[:] = [first]  # spec 9.19: a retry computes anew
    y.backward()
    plain = leaf()
    first(plain).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_a_mismatch_leaves_nothing(no_collector: None):
    x = leaf()
    y = checkpoint(Changing(lambda t: t.exp().sin().exp(), lambda t: t.exp().exp()), x).sum()
    before, state = memory_allocated(), surroundings()
    with pytest.raises(CheckpointError) as caught:
        y.backward()
    del caught  # its traceback holds the frames of the second run
    assert surroundings() == state
    assert memory_allocated() == before


@pytest.mark.parametrize("catch", [Exception, CheckpointError])
def test_the_early_end_of_the_second_run_is_not_swallowed(catch: type[Exception]):  # spec 9.15, P13; PyTorch: it is
    finished: list[str] = []

    def function(x: Any) -> Any:
        try:
            y = x.exp()
        except catch:
            finished.append("swallowed")
            y = x.sin().sin()
        finally:
            finished.append("finally")
        finished.append("end")
        return y

    x, plain = leaf(), leaf()
    checkpoint(function, x).sum().backward()
    plain.exp().sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()
    assert finished == ["finally", "end", "finally"]


def test_the_early_end_goes_on_where_everything_is_caught():  # spec 9.15, P13
    def function(x: Any) -> Any:
        try:
            y = x.exp().sin()
        except BaseException:  # noqa: BLE001  # as a careless program has it
            y = x.cos().tanh().sin()
        return y * 2.0

    x, plain = leaf(), leaf()
    checkpoint(function, x).sum().backward()
    function(plain).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_a_kept_error_keeps_nothing_in_frames_of_the_library(no_collector: None):  # spec P10
    x = leaf()
    y = checkpoint(Changing(lambda t: t.exp().sin().exp(), lambda t: t.exp().exp()), x * 1.0).sum()
    before = memory_allocated()
    with pytest.raises(CheckpointError) as caught:
        y.backward()
    frame, held = caught.value.__traceback__, []
    while frame is not None:
        if "test_errors" not in frame.tb_frame.f_code.co_filename:
            held += [name for name, value in frame.tb_frame.f_locals.items() if isinstance(value, stowgrad.Tensor)]
        frame = frame.tb_next
    assert held == []
    stowgrad.utils.clear_frames(caught.value)
    assert memory_allocated() == before


def test_a_failure_in_one_region_does_not_harm_another():  # case F6
    x = leaf()
    bad = checkpoint(Changing(lambda t: t.exp(), lambda t: t + 1), x).sum()
    good = checkpoint(lambda t: t.exp(), x).sum()
    with pytest.raises(CheckpointError):
        bad.backward()
    good.backward()
    assert np.allclose(x.grad.numpy(), np.exp(VALUES))
