"""Operators between tensors and arrays, ufuncs of NumPy and SciPy, and arrays of tensors."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special

import stowgrad
from stowgrad.interop.ufuncs import SCIPY, UFUNCS

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def leaf(*values: float) -> Any:
    return stowgrad.tensor(np.array(values), requires_grad=True)


@pytest.mark.parametrize("apply", ARITHMETIC)
def test_arithmetic_with_arrays_in_both_orders(apply: Any) -> None:
    t, a = leaf(1.5, 2.5, 3.5), np.array([2.0, 1.25, 0.5])
    for found, expected in ((apply(t, a), apply(t.detach().numpy(), a)), (apply(a, t), apply(a, t.detach().numpy()))):
        assert type(found) is stowgrad.Tensor
        assert found.requires_grad or apply is operator.floordiv
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-15)


@pytest.mark.parametrize("apply", COMPARISONS)
def test_comparisons_with_arrays_in_both_orders(apply: Any) -> None:
    t, a = leaf(1.0, 2.0, 3.0), np.array([2.0, 2.0, 0.5])
    for found, expected in ((apply(t, a), apply(t.detach().numpy(), a)), (apply(a, t), apply(a, t.detach().numpy()))):
        assert type(found) is stowgrad.Tensor
        assert found.dtype == bool
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("apply", [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift])
def test_bits_with_arrays(apply: Any) -> None:
    t, a = stowgrad.tensor([5, 6]), np.array([1, 2])
    assert apply(t, a).tolist() == apply(t.numpy(), a).tolist()
    assert apply(a, t).tolist() == apply(a, t.numpy()).tolist()


def test_products_with_arrays() -> None:
    t, a = stowgrad.tensor(np.eye(2), requires_grad=True), np.array([[1.0, 2.0], [3.0, 4.0]])
    assert (t @ a).tolist() == (a @ t).tolist() == a.tolist()
    assert (t @ a[0]).requires_grad
    assert (a[0] @ t).requires_grad
    assert (a.astype(np.float32) @ t).dtype == np.float64


def test_numbers_of_numpy_do_not_widen_and_arrays_do() -> None:
    t = stowgrad.tensor([1.0, 2.0])
    assert (t * np.float64(2)).dtype == (np.float64(2) * t).dtype == np.float32
    assert (t * np.array(2.0)).dtype == np.float32  # without dimensions
    assert (t * np.array([2.0, 3.0])).dtype == (np.array([2.0, 3.0]) + t).dtype == np.float64
    assert (stowgrad.tensor([1, 2]) / np.array([2, 4], np.int32)).dtype == np.float32
    assert (stowgrad.tensor([1, 2]) + np.float32(1.5)).dtype == np.float32


def test_an_array_shares_its_memory_and_counts_as_input() -> None:
    a = np.ones(1 << 16)
    t = stowgrad.tensor(np.ones(1 << 16), requires_grad=True)
    product = t * a
    (saved,) = [v for v in (product.grad_fn._saved_other, product.grad_fn._saved_self) if v is not None]
    assert np.shares_memory(saved, a)
    assert saved._storage.category == "input"


def test_in_place_with_arrays() -> None:
    t = stowgrad.tensor([1.0, 2.0])
    before = t
    t += np.array([1.0, 1.0])
    t *= np.array([2.0, 3.0])
    assert t is before
    assert t.tolist() == [4.0, 9.0]
    assert t.dtype == np.float32
    a = np.zeros(2)
    a += stowgrad.tensor([1.0, 2.0])
    assert type(a) is np.ndarray
    assert a.tolist() == [1.0, 2.0]


def test_in_place_into_an_array_of_what_requires_grad_is_refused() -> None:
    a = np.zeros(2)
    with pytest.raises(RuntimeError, match=r"np\.add.*automatic differentiation"):
        a += leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="numpy"):
        a[:] = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"np\.copyto"):
        np.copyto(a, leaf(1.0, 2.0))
    assert a.tolist() == [0.0, 0.0]


def test_an_element_set_to_a_tensor_warns() -> None:
    a, t = np.zeros(2), leaf(1.0, 2.0)
    with pytest.warns(UserWarning, match=r"requires_grad=True to a scalar"):
        a[0] = t[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a[1] = t[1].detach()
        a[1] = float(t[1])
        assert float(t[0]) == 1.0


def test_arrays_that_tensors_cannot_stand_for_are_refused() -> None:
    with pytest.raises(TypeError, match="masked"):
        leaf(1.0, 2.0) + np.ma.array([1.0, 2.0], mask=[0, 1])
    with pytest.raises(TypeError, match="object"):
        leaf(1.0) + np.array([None])
    swapped = np.array([1.0, 2.0]).astype(">f8")
    assert (leaf(1.0, 2.0) + swapped).tolist() == [2.0, 4.0]


def test_lists_of_tensors_are_refused_by_array_and_stacked_by_functions() -> None:
    t = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\)"):
        np.array([t[0], t[1]])
    assert np.stack([t[0], 3.0, t[1]]).tolist() == [1.0, 3.0, 2.0]
    assert np.dot(t, [t[1], 1.0]).tolist() == 4.0


def test_out_goes_into_tensors_and_arrays() -> None:
    t = stowgrad.tensor(np.array([1.0, 4.0]))
    out = stowgrad.zeros(2, dtype=stowgrad.float64)
    assert np.sqrt(t, out=out) is out
    assert out.tolist() == [1.0, 2.0]
    array = np.zeros(2)
    assert np.add(t, 1.0, out=array) is array
    assert array.tolist() == [2.0, 5.0]
    assert np.sum(t, out=array[:1].reshape(())) == 5.0
    assert np.cumsum(t, None, None, array) is array
    with pytest.raises(ValueError, match="shape"):
        np.sqrt(t, out=stowgrad.zeros(3, dtype=stowgrad.float64))
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        np.sqrt(leaf(1.0), out=np.zeros(1))
    with pytest.raises(TypeError, match="cast"):
        np.sqrt(t, out=np.zeros(2, np.int64))


def test_where_of_a_ufunc_is_refused_and_its_dtype_kept() -> None:
    t = leaf(1.0, 2.0)
    with pytest.raises(NotImplementedError, match=r"np\.add: where="):
        np.add(t, 1.0, where=np.array([True, False]))
    assert np.add(t, 1.0, dtype=np.float32).dtype == np.float32
    with pytest.raises(TypeError, match=r"np\.subtract\.reduce is not differentiable"):
        np.subtract.reduce(t)
    assert np.subtract.reduce(t.detach()).tolist() == -1.0


def test_at_adds_to_elements_that_are_named_twice() -> None:
    t = stowgrad.zeros(3, dtype=stowgrad.float64)
    values = leaf(1.0, 2.0, 3.0)
    np.add.at(t, [0, 0, 2], values)
    assert t.tolist() == [3.0, 0.0, 3.0]
    (t * stowgrad.tensor([1.0, 1.0, 5.0])).sum().backward()
    assert values.grad.tolist() == [1.0, 1.0, 5.0]
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        np.add.at(np.zeros(3), [0], values[:1])


def test_results_have_pytorchs_dtypes() -> None:
    whole = stowgrad.tensor([1, 4])
    assert np.sqrt(whole).dtype == np.float32
    assert np.add(whole, 1).dtype == np.int64
    assert np.exp(stowgrad.tensor([1.0], dtype=stowgrad.float16)).dtype == np.float16
    assert np.mean(whole).dtype == np.float32
    assert np.sum(whole.to(stowgrad.int32)).dtype == np.int64
    assert np.maximum(whole, 0.5).dtype == np.float32
    assert np.maximum(whole.to(stowgrad.float64), 0.7)[0].item() == 1.0
    assert np.minimum(whole.to(stowgrad.float64), 0.7)[0].item() == 0.7


def test_tensors_without_grad_go_where_there_is_no_derivative_and_come_back_as_tensors() -> None:
    t = stowgrad.tensor([3.0, 1.0, 2.0])
    counts, edges = np.histogram(t, bins=2)
    assert type(counts) is type(edges) is stowgrad.Tensor
    assert counts.tolist() == [1, 2]
    assert np.nextafter(t, t + 1).dtype == np.float32


def _written(x: Any, v: Any) -> Any:
    np.copyto(x[0], v[:4], where=np.array([True, False, True, True]))
    np.put(x, [4, 6, -1], v[4:6])
    np.place(x, np.arange(12).reshape(3, 4) == 5, v[6:])
    np.putmask(x, np.arange(12).reshape(3, 4) == 7, v[::2] * v[1::2])
    np.put_along_axis(x, np.array([[1], [2], [0]]), v[:3].reshape(3, 1) ** 2, axis=1)
    np.fill_diagonal(x[:, 1:], v[5:8])
    return np.sum(x * np.arange(12.0).reshape(3, 4) ** 2)


def test_functions_that_write_are_recorded() -> None:
    base, given = np.random.default_rng(5).standard_normal((3, 4)), np.random.default_rng(6).standard_normal(8)
    by_base, by_given = stowgrad.grad(lambda x, v: _written(np.copy(x), v), argnums=(0, 1))(base, given)
    for array, gradient, number in ((base, by_base, 0), (given, by_given, 1)):
        for place in np.ndindex(array.shape):
            step = np.zeros(array.shape)
            step[place] = 1e-6
            above, below = (
                _written(base.copy() + (sign * step if number == 0 else 0), given + (sign * step if number else 0))
                for sign in (1, -1)
            )
            assert gradient[place] == pytest.approx((above - below) / 2e-6, abs=1e-5)


def test_heaviside_has_a_derivative_where_its_value_is_given() -> None:
    values = leaf(0.5, 0.5)
    np.sum(np.heaviside(np.array([0.0, 1.0]), values)).backward()
    assert values.grad.tolist() == [1.0, 0.0]


def test_like_makes_tensors() -> None:
    t = leaf(1.0, 2.0)
    for made in (np.zeros(2, like=t), np.asarray([1, 2], like=t), np.arange(3, like=t), np.eye(2, like=t)):
        assert type(made) is stowgrad.Tensor
    assert np.array(t, like=t).requires_grad
    assert np.asarray([t[0], 5.0], like=t).requires_grad


def test_arrays_know_their_own_methods_but_not_tensors() -> None:
    assert np.zeros(2).clip(leaf(1.0, 2.0), 5.0).requires_grad
    with pytest.raises(RuntimeError, match="numpy"):
        np.zeros(2).dot(leaf(1.0, 2.0))


def test_tensors_have_the_methods_of_arrays_that_pytorch_does_not_know() -> None:
    t = leaf(1.5, 2.5)
    assert t.astype(int).tolist() == [1, 2]
    assert t.astype(np.float64) is not t
    assert t.astype(np.float64, copy=False) is t
    assert t.copy().requires_grad


# -- SciPy -----------------------------------------------------------------------------------------------------------

ARGUMENTS = {
    "erfinv": (0.3,),
    "logit": (0.3,),
    "ndtri": (0.3,),
    "betaln": (1.3, 0.7),
    "gammainc": (1.3, 0.7),
    "gammaincc": (1.3, 0.7),
    "xlogy": (1.3, 0.7),
    "xlog1py": (1.3, 0.7),
}


@pytest.mark.parametrize("name", sorted(SCIPY))
def test_ufuncs_of_scipy(name: str) -> None:
    function, values = getattr(scipy.special, name), ARGUMENTS.get(name, (0.8,))
    plain = [stowgrad.tensor(np.array([value])) for value in values]
    found = function(*plain)
    assert type(found) is stowgrad.Tensor
    np.testing.assert_allclose(found.numpy(), function(*[np.array([value]) for value in values]), rtol=1e-9)
    number = len(values) - 1
    leaves = [*plain[:number], plain[number].requires_grad_()]
    (gradient,) = stowgrad.autograd.grad(function(*leaves).sum(), leaves[number])
    above, below = ([*values[:number], values[number] + step] for step in (1e-6, -1e-6))
    assert gradient.item() == pytest.approx((function(*above) - function(*below)) / 2e-6, rel=1e-6)


def test_ufuncs_without_a_derivative_say_so() -> None:
    with pytest.raises(TypeError, match="ellipk is not differentiable"):
        scipy.special.ellipk(leaf(0.5))
    assert scipy.special.ellipk(leaf(0.5).detach()).item() == pytest.approx(1.8540746773)
    own = np.frompyfunc(lambda x: x, 1, 1)
    with pytest.raises(TypeError, match="not differentiable"):
        own(leaf(0.5))


def test_every_ufunc_of_numpy_is_in_the_table() -> None:
    ufuncs = {function for function in vars(np).values() if isinstance(function, np.ufunc)}
    assert {function.__name__ for function in ufuncs - set(UFUNCS)} == {
        "bitwise_count",
        "isnat",
        "nextafter",
        "spacing",
    }
