"""Anomaly mode."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, anomaly_mode, detect_anomaly, grad, set_detect_anomaly
from stowgrad.memory import events


def leaf(*values):
    return stowgrad.tensor(list(values) or [0.0], requires_grad=True)


def makes_nan(x):
    """A function with a gradient that is NaN at 0: 0 times infinity."""
    with np.errstate(all="ignore"):
        return (x * 0).sqrt()


class Fails(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise KeyError("mine")


def run(y, **options):
    with np.errstate(all="ignore"):
        y.sum().backward(**options)


def test_nan_is_an_error_that_names_node_and_output():  # spec 7.35
    with set_detect_anomaly(True):
        y = makes_nan(leaf())
        with (
            pytest.warns(UserWarning, match="Error detected in MulBackward0"),
            pytest.raises(RuntimeError, match="Function 'MulBackward0' returned nan values in its 0th output"),
        ):
            run(y)


def test_nan_passes_without_it():  # spec 7.35
    x = leaf()
    run(makes_nan(x))
    assert np.isnan(x.grad.item())


def test_nan_passes_with_check_nan_off():  # spec 7.35
    x = leaf()
    with set_detect_anomaly(True, check_nan=False):
        run(makes_nan(x))
    assert np.isnan(x.grad.item())


def test_nan_under_create_graph():  # spec 7.35
    x = leaf()
    with set_detect_anomaly(True):
        y = makes_nan(x)
        with pytest.warns(UserWarning, match="MulBackward0"), pytest.raises(RuntimeError, match="returned nan"):
            run(y, create_graph=True)


@pytest.mark.parametrize("device_name", ["sim:0", "meta"])
def test_other_devices(device_name):  # spec 7.35
    x = stowgrad.ones(3, device=device_name, requires_grad=True)
    with set_detect_anomaly(True):
        (x * x).sum().backward()
    assert x.grad.shape == (3,)


def test_the_warning_shows_where_the_node_was_recorded():  # spec 7.35
    with set_detect_anomaly(True):
        y = Fails.apply(leaf())  # this line
        with pytest.warns(UserWarning, match="Error detected") as caught, pytest.raises(KeyError, match="mine"):
            run(y)
    text = str(caught[0].message)
    assert text.startswith("Error detected in FailsBackward. Traceback of forward call that caused the error:")
    assert text.rstrip().endswith("y = Fails.apply(leaf())  # this line")


def test_the_node_s_metadata_has_the_traceback():  # spec 7.35
    with set_detect_anomaly(True):
        y = leaf() * 2  # that line
    assert y.grad_fn.metadata["traceback_"][-1].rstrip().endswith("y = leaf() * 2  # that line")
    assert (leaf() * 2).grad_fn.metadata == {}


def test_a_node_from_before_has_no_traceback():  # spec 7.35
    y = Fails.apply(leaf())
    with set_detect_anomaly(True):
        with pytest.warns(UserWarning, match="No forward pass information available"), pytest.raises(KeyError):
            run(y)


def test_a_node_of_backward_shows_the_node_that_led_to_it():  # spec 7.35
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return Fails.apply(g)

    x = leaf()
    with set_detect_anomaly(True):
        go = stowgrad.ones(1, requires_grad=True)
        (g,) = grad(Twice.apply(x), x, go, create_graph=True)
        with pytest.warns(UserWarning, match="Error detected") as caught, pytest.raises(KeyError):
            run(g)
    text = str(caught[0].message)
    assert "Error detected in FailsBackward" in text
    assert "Previous calculation was induced by TwiceBackward" in text


def test_errors_are_silent_without_it():
    with pytest.raises(KeyError):
        run(Fails.apply(leaf()))


def test_the_hint_of_the_in_place_error():  # spec 2.15 7.35
    def message():
        h = leaf(1.0) * 1
        y = h * h
        h.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
            run(y)
        return str(caught.value)

    assert "Hint: enable anomaly detection" in message()
    with set_detect_anomaly(True), pytest.warns(UserWarning, match="Error detected in MulBackward0"):
        assert "Hint: the backtrace further above shows the operation" in message()


# -- switching it ------------------------------------------------------------------------------------------------------


def test_set_acts_at_once():  # spec 7.35
    set_detect_anomaly(True, check_nan=False)
    try:
        assert anomaly_mode.is_anomaly_enabled()
        assert not anomaly_mode.is_anomaly_check_nan_enabled()
    finally:
        set_detect_anomaly(False)
    assert not anomaly_mode.is_anomaly_enabled()
    assert anomaly_mode.is_anomaly_check_nan_enabled()


def test_contexts_restore():  # spec 7.35
    with set_detect_anomaly(True, check_nan=False):
        with set_detect_anomaly(False):
            assert not anomaly_mode.is_anomaly_enabled()
        assert anomaly_mode.is_anomaly_enabled()
        assert not anomaly_mode.is_anomaly_check_nan_enabled()
    assert events.observers == ()


def test_detect_anomaly_warns_that_it_is_slow():  # spec 7.35
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        context = detect_anomaly()
    assert not anomaly_mode.is_anomaly_enabled()
    with context:
        assert anomaly_mode.is_anomaly_enabled()
    assert not anomaly_mode.is_anomaly_enabled()


# -- lifetime ----------------------------------------------------------------------------------------------------------


def test_no_node_is_held():  # P9
    gc.disable()
    try:
        with set_detect_anomaly(True):
            y = leaf(1.0).exp()
            node = weakref.ref(y.grad_fn)
            del y
            assert node() is None
    finally:
        gc.enable()
