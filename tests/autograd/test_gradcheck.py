"""`gradcheck` and `gradgradcheck`."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, gradcheck, gradgradcheck
from stowgrad.autograd.backward import grad
from stowgrad.autograd.gradcheck import GradcheckError

modes = pytest.mark.parametrize("fast_mode", [False, True])


def leaf(*values, dtype="float64"):
    return stowgrad.tensor(list(values) or [1.0, 2.0, 3.0], dtype=np.dtype(dtype), requires_grad=True)


def function(forward, backward):
    return type("Made", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}).apply


FUNCTIONS = {
    "one": lambda x: (x * x).exp(),
    "several outputs": lambda x: (x.sin(), x.sum(), "text"),
    "a list": lambda x: [x.sin()],
    "an output that is an input": lambda x: (x, x * 2),
    "an output without gradient": lambda x: (x * 2, x.detach()),
    "integers": lambda x: (x * 2, x.long()),
    "no elements": lambda x: x[:0],
}


@modes
@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_right_gradients_pass(f, fast_mode):  # spec 10.5
    assert gradcheck(f, leaf(), fast_mode=fast_mode)


@modes
def test_several_inputs(fast_mode):  # spec 10.5
    inputs = (leaf(), 2.0, leaf(0.5, 0.2, 0.1), stowgrad.ones(3, dtype=stowgrad.float64))
    assert gradcheck(lambda x, n, y, c: (x * n / y + c).tanh(), inputs, fast_mode=fast_mode)


def test_strided_inputs():  # spec 10.5
    x = stowgrad.tensor(np.arange(1.0, 7.0).reshape(2, 3)).t().detach().requires_grad_()
    assert gradcheck(lambda x: x @ x.t(), x)


def test_inputs_are_as_they_were():  # spec 10.5
    x = leaf()
    gradcheck(lambda x: x * x, x)
    assert (x.tolist(), x._version, x.grad) == ([1.0, 2.0, 3.0], 0, None)


@modes
def test_wrong_gradients_are_found(fast_mode):  # spec 10.5
    wrong = function(lambda ctx, x: x * 2, lambda ctx, g: g)
    with pytest.raises(GradcheckError, match=r"Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(wrong, leaf(), fast_mode=fast_mode)


@modes
def test_the_answer_may_be_false(fast_mode):  # spec 10.5
    wrong = function(lambda ctx, x: x * 2, lambda ctx, g: g)
    assert gradcheck(wrong, leaf(), fast_mode=fast_mode, raise_exception=False) is False


def test_tolerances():  # spec 10.5
    nearly = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2.01)
    assert gradcheck(nearly, leaf(), atol=0.1)
    assert gradcheck(nearly, leaf(), rtol=0.1)
    assert gradcheck(nearly, leaf(), eps=1e-3, rtol=0.1)
    assert not gradcheck(nearly, leaf(), raise_exception=False)


def test_single_precision_warns():  # spec 10.5
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        gradcheck(lambda x: x * 2, leaf(dtype="float32"), eps=1e-2, atol=1e-2)


def test_an_input_must_require_grad():  # spec 10.5
    with pytest.raises(ValueError, match="expects at least one input tensor to require gradient"):
        gradcheck(lambda x: x * 2, stowgrad.ones(2, dtype=stowgrad.float64))


def test_overlapping_inputs_are_refused():  # spec 10.5
    x = stowgrad.ones(1, dtype=stowgrad.float64).expand(3).requires_grad_()
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0"):
        gradcheck(lambda x: x * 2, x)


def test_a_function_without_gradient_must_be_constant():  # spec 10.5
    assert gradcheck(lambda x: stowgrad.ones(2, dtype=stowgrad.float64), leaf())
    with pytest.raises(GradcheckError, match="expected to be zero"):
        gradcheck(lambda x: x.detach() * 2, leaf())


def test_a_backward_that_is_not_reproducible_is_found():  # spec 10.5
    rng = np.random.default_rng(0)
    noisy = function(lambda ctx, x: x * 2, lambda ctx, g: g * (2 + 1e-9 * rng.random()))
    with pytest.raises(GradcheckError, match=r"not reentrant.*tolerance for nondeterminism was 0\.0"):
        gradcheck(noisy, leaf())
    assert gradcheck(noisy, leaf(), nondet_tol=1e-6)


def test_a_backward_that_does_not_scale_is_found():  # spec 10.5
    # right for gradients of one 1 and zeros, which is all that Jacobians are made of
    f = function(lambda ctx, x: x * 2, lambda ctx, g: g * 2 if g.sum().item() else g * 0 + 1)
    with pytest.raises(GradcheckError, match="not multiplied by grad_output"):
        gradcheck(f, leaf())


def test_a_gradient_of_another_dtype_is_found():  # spec 10.5
    with pytest.warns(UserWarning, match="double precision"):
        assert gradcheck(lambda x: x.double() * 2, leaf(dtype="float32"), eps=1e-2, atol=1e-2, check_grad_dtypes=True)


def unready_forward(ctx, x):
    ctx.set_materialize_grads(False)
    return x * 2


def test_a_backward_that_can_not_take_none_is_found():  # spec 10.5
    f = function(unready_forward, lambda ctx, g: g * 2)
    with pytest.raises(GradcheckError, match=r"handle undefined output grads.*TypeError"):
        gradcheck(f, leaf())
    assert gradcheck(f, leaf(), check_undefined_grad=False)


def test_all_of_several_gradients_may_be_undefined():  # spec 10.5
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    def backward(ctx, g, h):
        parts = [part * n for part, n in ((g, 2), (h, 3)) if part is not None]
        return sum(parts[1:], parts[0])

    with pytest.raises(GradcheckError, match="handle undefined output grads"):
        gradcheck(function(forward, backward), leaf())


def test_gradients_from_nothing_are_found():  # spec 10.5
    def backward(ctx, g):
        return stowgrad.ones(3, dtype=stowgrad.float64) if g is None else g * 2

    with pytest.raises(GradcheckError, match="Expected all input grads to be undefined or zero"):
        gradcheck(function(unready_forward, backward), leaf())


def test_none_is_taken_well():  # spec 10.5
    assert gradcheck(function(unready_forward, lambda ctx, g: None if g is None else g * 2), leaf())


def test_batched_gradients():  # spec 10.5
    if "is_grads_batched" in inspect.signature(grad).parameters:
        assert gradcheck(lambda x: (x * x).sum(), leaf(), check_batched_grad=True, fast_mode=True)
    else:
        with pytest.raises(ValueError, match="check_batched_grad=True is not supported"):
            gradcheck(lambda x: (x * x).sum(), leaf(), check_batched_grad=True)


def test_forward_ad_is_refused():  # spec 10.5
    with pytest.raises(NotImplementedError, match="forward-mode"):
        gradcheck(lambda x: x * 2, leaf(), check_forward_ad=True)


def test_nothing_to_check_is_refused():  # spec 10.5
    with pytest.raises(ValueError, match="at least one of"):
        gradcheck(lambda x: x * 2, leaf(), check_backward_ad=False)


@modes
def test_complex_inputs_and_outputs(fast_mode):  # spec 10.5
    x = stowgrad.tensor([1 + 2j, 3 - 1j], dtype=np.dtype(np.complex128), requires_grad=True)
    assert gradcheck(lambda x: (x + x.sum()).view(1, 2), x, fast_mode=fast_mode)


def test_other_devices(device):  # spec 10.5
    x = stowgrad.tensor([1.0, 2.0], dtype=stowgrad.float64, device=device, requires_grad=True)
    assert gradcheck(lambda x: (x * x).exp(), x)


@modes
def test_second_derivatives_pass(fast_mode):  # spec 10.6
    assert gradgradcheck(lambda x, y: (x * y).exp() / y, (leaf(), leaf(2.0, 1.0, 0.5)), fast_mode=fast_mode)


def test_second_derivatives_of_several_outputs():  # spec 10.6
    assert gradgradcheck(lambda x: (x * x, x.sin().sum()), leaf())


def test_gradients_of_outputs_may_be_given():  # spec 10.6
    assert gradgradcheck(lambda x: x * x, leaf(), leaf(0.5, 0.1, 2.0))


def test_a_linear_function_has_no_second_derivative():  # spec 10.6
    assert gradgradcheck(lambda x: x * 2, leaf())


def test_wrong_second_derivatives_are_found():  # spec 10.6, 6.18
    def forward(ctx, x):
        square = x * x
        ctx.save_for_backward(square)  # an intermediate: what depends on x through it is left out
        return square * x

    def backward(ctx, g):
        (square,) = ctx.saved_tensors
        return g * 3 * square

    f = function(forward, backward)
    assert gradcheck(f, leaf())
    with (
        pytest.warns(UserWarning, match="neither an input nor an output"),
        pytest.raises(GradcheckError, match="Jacobian mismatch"),
    ):
        gradgradcheck(f, leaf())


def test_the_error_is_found_under_pytorch_s_paths():  # surface 3
    assert importlib.import_module("stowgrad.autograd.gradcheck").GradcheckError is GradcheckError
    assert stowgrad.autograd.gradcheck.GradcheckError is GradcheckError
    assert issubclass(GradcheckError, RuntimeError)
