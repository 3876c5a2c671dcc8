"""``out=``: results written into a tensor that the caller has."""

from __future__ import annotations

import pytest

import stowgrad


def test_the_result_is_written_and_returned():
    x, out = stowgrad.tensor([1.0, 4.0]), stowgrad.zeros(2)
    view = out[:1]
    assert stowgrad.sqrt(x, out=out) is out
    assert (out.tolist(), view.tolist()) == ([1.0, 2.0], [1.0])


def test_the_write_counts_in_the_version():
    out = stowgrad.zeros(2)
    before = out._version
    stowgrad.exp(stowgrad.zeros(2), out=out)
    assert out._version > before


@pytest.mark.parametrize("who", ["argument", "out"])
def test_an_argument_that_requires_grad_is_refused(who):  # spec 2.13
    x = stowgrad.ones(2, requires_grad=who == "argument")
    out = stowgrad.zeros(2, requires_grad=who == "out")
    with pytest.raises(RuntimeError, match=r"add\(\): functions with out=... arguments don't support automatic"):
        stowgrad.add(x, x, out=out)
    assert out.tolist() == [0.0, 0.0]


def test_a_tensor_in_a_list_that_requires_grad_is_refused():  # spec 2.13
    x = stowgrad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        stowgrad.cat([stowgrad.ones(1), x], out=stowgrad.zeros(3))


def test_without_gradients_it_is_allowed():  # spec 2.13
    x, out = stowgrad.ones(2, requires_grad=True), stowgrad.zeros(2)
    with stowgrad.no_grad():
        stowgrad.add(x, x, out=out)
    assert (out.tolist(), out.requires_grad) == ([2.0, 2.0], False)


def test_an_input_may_be_the_out():
    x = stowgrad.tensor([1.0, 2.0])
    stowgrad.mul(x, x, out=x)
    assert x.tolist() == [1.0, 4.0]


def test_the_result_is_cast_to_the_dtype_of_out():
    out = stowgrad.zeros(2, dtype=stowgrad.float64)
    stowgrad.exp(stowgrad.zeros(2), out=out)
    assert (out.dtype, out.tolist()) == (stowgrad.float64, [1.0, 1.0])


def test_a_dtype_that_cannot_hold_the_result_is_refused():
    out = stowgrad.zeros(2, dtype=stowgrad.int64)
    with pytest.raises(RuntimeError, match="result type float32 can't be cast to the desired output type int64"):
        stowgrad.exp(stowgrad.zeros(2), out=out)


def test_an_empty_out_takes_the_shape():
    out = stowgrad.empty(0)
    stowgrad.exp(stowgrad.zeros(2, 3), out=out)
    assert tuple(out.shape) == (2, 3)


def test_an_out_of_another_shape_takes_the_shape_with_a_warning():
    out = stowgrad.zeros(5)
    with pytest.warns(UserWarning, match=r"resized since it had shape \[5\]"):
        stowgrad.exp(stowgrad.zeros(2), out=out)
    assert out.tolist() == [1.0, 1.0]


def test_another_device_is_refused():
    with pytest.raises(RuntimeError, match="expected out tensor to be on cpu, but it is on sim:0"):
        stowgrad.exp(stowgrad.zeros(2), out=stowgrad.zeros(2, device="sim:0"))


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="argument 'out' must be Tensor, not list"):
        stowgrad.sqrt(stowgrad.ones(1), out=[[0.0]])
