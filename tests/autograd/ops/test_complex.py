"""Complex numbers: gradients of loss and parts, beside differences; what has no such gradient says so."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import gradcheck, gradgradcheck
from stowgrad.autograd.ops import elementwise
from stowgrad.autograd.ops.pointwise import SELF, Unary

RNG = np.random.default_rng(5)


def leaf(*shape):
    values = RNG.uniform(0.3, 1.2, shape) + 1j * RNG.uniform(0.2, 1.1, shape)
    return stowgrad.tensor(values, requires_grad=True)


def real_leaf(*shape):
    return stowgrad.tensor(RNG.uniform(0.3, 1.2, shape), requires_grad=True)


def _written(x, y):
    z = x * 1
    z.real.mul_(y.imag)
    return z * y


FUNCTIONS = {
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "add a part": lambda x, y: x + y.real * x.imag,
    "exp": lambda x, y: x.exp() * y,
    "conj": lambda x, y: x.conj() * y,
    "abs": lambda x, y: x.abs() * y,
    "angle": lambda x, y: x.angle() * y,
    "matmul": lambda x, y: x @ y.t(),
    "einsum of parts": lambda x, y: (x.real @ y.imag.t()) * (x @ x.t()),
    "a real factor": lambda x, y: x * y.abs(),
    "as reals": lambda x, y: stowgrad.view_as_real(x * y),
    "of reals": lambda x, y: stowgrad.view_as_complex(stowgrad.view_as_real(x) * 2) * y,
    "complex": lambda x, y: stowgrad.complex(x.real, y.imag) * x,
    "polar": lambda x, y: stowgrad.polar(x.abs(), y.angle()) * y,
    "fft": lambda x, y: stowgrad.fft.fft(x) * y,
    "hfft": lambda x, y: stowgrad.fft.hfft(x * y),
    "write in place": lambda x, y: (x * 1).mul_(y),
    "write into a part": _written,
    "a cast": lambda x, y: x.real.cdouble() * y,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_agree_with_differences(name):
    inputs = leaf(2, 3), leaf(2, 3)
    assert gradcheck(FUNCTIONS[name], inputs)
    assert gradgradcheck(FUNCTIONS[name], inputs)


def test_the_gradient_of_a_real_factor_is_real():
    x, w = leaf(3), real_leaf(3)
    (x * w).abs().sum().backward()
    assert (w.grad.dtype, x.grad.dtype) == (np.float64, np.complex128)
    assert gradcheck(lambda x, w: x * w, (x, w))


def test_the_gradient_points_where_the_loss_grows():
    z = stowgrad.tensor([3 + 4j], requires_grad=True)
    z.abs().sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), [0.6 + 0.8j])


def test_linear_ops_pass_gradients_on():  # case I8
    x = stowgrad.tensor(np.array([1 + 2j, 3 - 1j]), requires_grad=True)
    (x.view(2, 1) + x.view(1, 2)).sum().backward(stowgrad.tensor(np.array(1 + 1j)))
    assert x.grad.tolist() == [4 + 4j, 4 + 4j]


@pytest.mark.parametrize("number", [2j, 1 + 1j])
def test_numbers_are_conjugated(number):
    x = stowgrad.tensor(np.array([1 + 2j, 3 - 1j]), requires_grad=True)
    (x * number).sum().backward(stowgrad.tensor(np.array(1 + 0j)))
    assert x.grad.tolist() == [number.conjugate()] * 2


class Silent(Unary):
    """An op that does not say what its formula does with complex values."""

    name = "silent"
    saves = (SELF,)

    def kernel(self, k, x, out):
        k.exp(x, out)

    def backward(self, do, node, saved, *grads):
        return (do(elementwise.mul, grads[0], do(elementwise.exp, saved[0])),)


def test_gradients_that_could_be_wrong_are_refused():
    with pytest.raises(NotImplementedError, match="silent: gradients of complex tensors"):
        Silent()(leaf(2))
    with stowgrad.no_grad():
        assert Silent()(leaf(2)).dtype == np.complex128


def test_the_parts_share_memory():
    z = stowgrad.zeros(2, dtype=stowgrad.complex64)
    z.real.fill_(1)
    z.imag.fill_(2)
    stowgrad.view_as_real(z)[0, 1] = 5
    assert z.tolist() == [1 + 5j, 1 + 2j]
    pairs = stowgrad.zeros(2, 2)
    stowgrad.view_as_complex(pairs).fill_(3 + 4j)
    assert pairs.tolist() == [[3, 4], [3, 4]]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: stowgrad.ones(3), "size 2"),
        (lambda: stowgrad.ones(()), "one or more dimensions"),
        (lambda: stowgrad.ones(2, 3).t(), "stride 1"),
        (lambda: stowgrad.ones(3, 3)[:, :2], "divisible by 2"),
        (lambda: stowgrad.ones(2, dtype=stowgrad.int64), "float and double"),
    ],
)
def test_what_is_no_view_of_complex_numbers(made, message):
    with pytest.raises(RuntimeError, match=message):
        stowgrad.view_as_complex(made())


def test_parts_that_do_not_fit():
    with pytest.raises(RuntimeError, match="Float or Double"):
        stowgrad.complex(stowgrad.tensor([1]), stowgrad.tensor([1]))
    with pytest.raises(RuntimeError, match="second argument"):
        stowgrad.polar(stowgrad.ones(1), stowgrad.ones(1, dtype=np.float64))
    with pytest.raises(TypeError, match="'imag' must be Tensor"):
        stowgrad.complex(stowgrad.ones(1), 2.0)
    with pytest.raises(RuntimeError, match="non-complex"):
        stowgrad.imag(stowgrad.ones(1))
    with pytest.raises(RuntimeError, match="only supported for complex"):
        stowgrad.view_as_real(stowgrad.ones(1))


def test_questions():
    z = stowgrad.tensor([1 + 0j, 1j])
    assert stowgrad.isreal(z).tolist() == [True, False]
    assert stowgrad.isreal(stowgrad.tensor([float("nan")])).tolist() == [True]
    assert (z.is_complex(), stowgrad.ones(1).is_complex()) == (True, False)
    for same in (stowgrad.conj, stowgrad.real, stowgrad.conj_physical, stowgrad.resolve_conj, stowgrad.resolve_neg):
        x = stowgrad.ones(2)
        assert same(x) is x
