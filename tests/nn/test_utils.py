"""Gradient clipping, and parameters as one vector."""

from __future__ import annotations

import math

import numpy as np
import pytest

import stowgrad
from stowgrad import nn


def with_gradients(*gradients: list[float] | None) -> list[nn.Parameter]:
    parameters = []
    for gradient in gradients:
        parameter = nn.Parameter(stowgrad.zeros(2 if gradient is None else len(gradient)))
        parameter.grad = None if gradient is None else stowgrad.tensor(gradient)
        parameters.append(parameter)
    return parameters


@pytest.mark.parametrize(("norm_type", "norm"), [(2.0, 13.0), (1, 19.0), (math.inf, 12.0), ("inf", 12.0)])
def test_the_norm_is_that_of_one_long_vector(norm_type: float, norm: float):
    parameters = with_gradients([3.0, -4.0], None, [12.0])
    versions = [p.grad._version for p in parameters if p.grad is not None]
    total = nn.utils.clip_grad_norm_(iter(parameters), 1.0, norm_type)
    assert total.shape == ()
    assert total.item() == pytest.approx(norm)
    scaled = np.concatenate([parameters[0].grad.numpy(), parameters[2].grad.numpy()])
    np.testing.assert_allclose(scaled, np.array([3, -4, 12]) / norm, rtol=1e-5)
    assert [p.grad._version for p in parameters if p.grad is not None] == [v + 1 for v in versions]


def test_small_gradients_stay_untouched():
    (parameter,) = with_gradients([0.3, 0.4])
    before = parameter.grad.numpy().copy()
    nn.utils.clip_grad_norm_(parameter, 1.0)
    np.testing.assert_array_equal(parameter.grad.numpy(), before)
    assert parameter.grad._version == 0


def test_large_gradients_do_not_depend_on_threads():
    values = np.random.default_rng(0).standard_normal(500_000).astype(np.float32)
    norms = []
    before = stowgrad.get_num_threads()
    try:
        for threads in (1, 2):
            stowgrad.set_num_threads(threads)
            parameter = nn.Parameter(stowgrad.zeros(values.size))
            parameter.grad = stowgrad.tensor(values)
            norms.append(nn.utils.clip_grad_norm_([parameter], 1e9).item())
    finally:
        stowgrad.set_num_threads(before)
    assert norms[0] == norms[1]
    assert norms[0] == pytest.approx(float(np.linalg.norm(values.astype(np.float64))), rel=1e-6)


def test_non_finite_norms():
    (parameter,) = with_gradients([math.inf, 1.0])
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_(parameter, 1.0, error_if_nonfinite=True)
    assert parameter.grad.numpy()[1] == 1
    assert math.isinf(nn.utils.clip_grad_norm_(parameter, 1.0).item())
    assert parameter.grad.numpy()[1] == 0
    (parameter,) = with_gradients([math.nan, 1.0])
    nn.utils.clip_grad_norm_(parameter, 1.0)
    assert np.isnan(parameter.grad.numpy()).all()


def test_nothing_to_clip():
    assert nn.utils.clip_grad_norm_([], 1.0).item() == 0
    assert nn.utils.clip_grad_norm_(with_gradients(None), 1.0).item() == 0
    with pytest.warns(UserWarning, match="empty generator"):
        nn.utils.clip_grad_norm_((p for p in ()), 1.0)


def test_values_are_clipped():
    (parameter,) = with_gradients([-3.0, 0.5, 3.0])
    nn.utils.clip_grad_value_([parameter], 1)
    assert parameter.grad.numpy().tolist() == [-1, 0.5, 1]
    assert parameter.grad._version == 1


def test_vectors():
    layer = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,)
    assert vector.requires_grad
    nn.utils.vector_to_parameters(stowgrad.arange(9).float(), layer.parameters())
    assert layer.weight.detach().numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    assert layer.bias.detach().numpy().tolist() == [6, 7, 8]
    with pytest.raises(ValueError, match="8 elements, the parameters have 9"):
        nn.utils.vector_to_parameters(stowgrad.ones(8), layer.parameters())
    with pytest.raises(TypeError, match="expected a Tensor"):
        nn.utils.vector_to_parameters([1.0], layer.parameters())  # type: ignore[arg-type]
