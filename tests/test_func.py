"""Derivatives of functions of arrays: `grad`, `value_and_grad`, `vjp`, `jacobian`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import stowgrad
from stowgrad import func
from stowgrad.memory import memory_allocated


def cube(x: Any) -> Any:
    return x * x * x


def test_gradients_of_arrays_are_arrays() -> None:
    value, gradient = stowgrad.value_and_grad(lambda x: np.sum(np.sin(x)))(np.array([0.0, 1.0]))
    assert type(value) is np.float64
    assert type(gradient) is np.ndarray
    np.testing.assert_allclose(gradient, np.cos([0.0, 1.0]))
    assert stowgrad.grad is func.grad


def test_dtypes_are_those_of_the_arguments() -> None:
    gradient = stowgrad.grad(lambda x: np.sum(x * np.ones(3)))(np.zeros(3, np.float32))
    assert gradient.dtype == np.float32


def test_nesting_as_deep_as_one_likes() -> None:
    functions = [np.sin]
    for _ in range(6):
        functions.append(stowgrad.grad(functions[-1]))
    for function, expected in zip(
        functions, [np.sin, np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)] * 2, strict=False
    ):
        assert function(0.7) == pytest.approx(expected(0.7), rel=1e-12)


def test_inner_and_outer_derivatives_are_told_apart() -> None:
    # d/dx [x * d/dy (x + y)] is 1: a tool that confuses the two gets 2.
    assert stowgrad.grad(lambda x: x * stowgrad.grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert stowgrad.grad(lambda x: stowgrad.grad(lambda y: y * y * x)(x))(3.0) == 12.0


def test_hessian_by_jacobian_of_grad() -> None:
    matrix = np.array([[2.0, 1.0], [0.0, 3.0]])
    hessian = stowgrad.jacobian(stowgrad.grad(lambda x: x @ matrix @ x))(np.array([1.0, -1.0]))
    np.testing.assert_allclose(hessian, matrix + matrix.T)


class Weights(NamedTuple):
    scale: Any
    shifts: list[Any]


def test_arguments_may_be_trees() -> None:
    def loss(weights: Weights, data: dict[str, Any]) -> Any:
        return np.sum(weights.scale * data["x"] + weights.shifts[0] * data["y"][0])

    weights = Weights(np.array(2.0), [np.array([1.0, 1.0])])
    data = {"x": np.array([1.0, 2.0]), "y": (np.array([3.0, 4.0]),)}
    by_weights, by_data = stowgrad.grad(loss, argnums=(0, -1))(weights, data)
    assert type(by_weights) is Weights
    assert by_weights.scale == 3.0
    assert by_weights.shifts[0].tolist() == [3.0, 4.0]
    assert by_data["x"].tolist() == [2.0, 2.0]
    assert type(by_data["y"]) is tuple


def test_what_the_value_does_not_depend_on_gets_zeros() -> None:
    by_x, by_y = stowgrad.grad(lambda x, y: np.sum(x), argnums=(0, 1))(np.ones(2), np.ones(3))
    assert by_x.tolist() == [1.0, 1.0]
    assert by_y.tolist() == [0.0, 0.0, 0.0]
    assert stowgrad.grad(lambda x: stowgrad.tensor(3.0))(1.0) == 0.0


def test_keywords_and_other_arguments_are_handed_on() -> None:
    assert stowgrad.grad(lambda x, n, *, scale: scale * x**n)(2.0, 3, scale=10.0) == 120.0
    assert stowgrad.grad(lambda n, x: x**n, argnums=1)(3, 2.0) == 12.0


def test_vjp_may_be_called_again_and_for_several_arguments() -> None:
    value, pull_back = stowgrad.vjp(lambda x, y: x * y, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    assert value.tolist() == [3.0, 8.0]
    for scale in (1.0, 2.0):
        by_x, by_y = pull_back(np.array([scale, 0.0]))
        assert by_x.tolist() == [3.0 * scale, 0.0]
        assert by_y.tolist() == [scale, 0.0]


def test_a_pull_back_is_differentiated_for_its_cotangent() -> None:
    _, pull_back = stowgrad.vjp(cube, np.array(2.0))
    assert stowgrad.grad(lambda c: pull_back(c)[0] * c)(3.0) == pytest.approx(2 * 12.0 * 3.0)


def test_jacobian_has_the_shapes_of_value_and_argument() -> None:
    by_x, by_y = stowgrad.jacobian(lambda x, y: np.outer(x, x) @ y, argnums=(0, 1))(
        np.array([1.0, 2.0]), np.ones((2, 3))
    )
    assert by_x.shape == (2, 3, 2)
    assert by_y.shape == (2, 3, 2, 3)
    np.testing.assert_allclose(by_y[0, 0, :, 0], [1.0, 2.0])
    assert stowgrad.jacobian(lambda x: x[:0])(np.ones(2)).shape == (0, 2)


def test_tensors_in_tensors_out() -> None:
    plain = stowgrad.grad(cube)(stowgrad.tensor(2.0))
    assert type(plain) is stowgrad.Tensor
    assert not plain.requires_grad
    x = stowgrad.tensor(2.0, requires_grad=True)
    gradient = stowgrad.grad(cube)(x)
    assert gradient.requires_grad
    gradient.backward()
    assert x.grad.item() == 12.0


def test_it_records_under_no_grad_and_leaves_no_trace() -> None:
    before = memory_allocated()
    with stowgrad.no_grad():
        assert stowgrad.grad(cube)(2.0) == 12.0
        assert not stowgrad.is_grad_enabled()
    assert memory_allocated() == before


def test_an_error_inside_does_not_confuse_later_calls() -> None:
    def broken(x: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stowgrad.grad(broken)(1.0)
    with pytest.raises(TypeError, match="floating-point"):
        stowgrad.grad(cube)(np.array([1, 2]))
    assert type(stowgrad.grad(cube)(2.0)) is np.float64


def test_errors() -> None:
    with pytest.raises(RuntimeError, match=r"expected cube to return a scalar, got a tensor of shape \[2\]"):
        stowgrad.grad(cube)(np.ones(2))
    with pytest.raises(IndexError, match="no argument 1"):
        stowgrad.grad(cube, argnums=1)(1.0)
    with pytest.raises(TypeError, match=r"expected <lambda> to return a Tensor.* got float"):
        stowgrad.grad(lambda x: 1.0)(1.0)
    with pytest.raises(TypeError, match="floating-point arguments, got int"):
        stowgrad.grad(cube)(2)
