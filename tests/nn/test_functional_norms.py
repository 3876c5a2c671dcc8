"""Normalisation, activations and dropout of nn.functional: what moves, what is kept, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.nn import functional as F

Call = Callable[[Any], Any]


def kept(result: Any) -> int:
    """The bytes that a result's node keeps, leaves left out."""
    values = [value.array(result.grad_fn) for value in result.grad_fn.saved_variables if value is not None]
    return sum(value.nbytes for value in values)


def signed(*sizes: int) -> Any:
    rng = np.random.default_rng(3)
    return stowgrad.tensor(rng.standard_normal(sizes).astype("f"), requires_grad=True)


# -- what is kept ------------------------------------------------------------------------------------------------------

BITS: dict[str, Call] = {
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True),
    "dropout": F.dropout,
    "hardshrink": F.hardshrink,
    "hardsigmoid": F.hardsigmoid,
    "hardtanh": F.hardtanh,
    "leaky_relu": F.leaky_relu,
    "relu": F.relu,
    "relu6": F.relu6,
    "rrelu": lambda x: F.rrelu(x, training=True),
    "softshrink": F.softshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "bias_activation": lambda x: F.bias_activation(x, stowgrad.zeros(64), "relu"),
}


@pytest.mark.parametrize("name", BITS)
def test_one_bit_an_element_is_kept(name: str):
    assert kept(BITS[name](signed(32, 64))) == 32 * 64 // 8


RESULTS: dict[str, Call] = {
    "celu": F.celu,
    "elu": F.elu,
    "logsigmoid": F.logsigmoid,
    "selu": F.selu,
    "sigmoid": F.sigmoid,
    "tanh": F.tanh,
}


@pytest.mark.parametrize("name", RESULTS)
def test_the_result_is_kept(name: str):
    result = RESULTS[name](signed(8, 9))
    (saved,) = result.grad_fn.saved_variables
    assert saved.storage is result._storage


def test_dropout_of_channels_keeps_a_number_a_channel():
    result = F.dropout2d(signed(4, 8, 5, 6), 0.5)
    assert kept(result) == 4 * 8 * 4


def test_norms_keep_the_input_and_two_numbers():
    x = signed(4, 6, 5, 7)
    assert kept(F.batch_norm(x, None, None, training=True)) == x.nbytes + 2 * 6 * 4
    assert kept(F.group_norm(x, 3)) == x.nbytes + 2 * 4 * 3 * 4
    assert kept(F.instance_norm(x)) == x.nbytes + 2 * 4 * 6 * 4
    assert kept(F.rms_norm(x, (7,))) == x.nbytes + 4 * 6 * 5 * 4
    assert kept(F.local_response_norm(x, 3)) == x.nbytes


def test_batch_norm_outside_of_training_keeps_the_input_only_for_the_weight():
    x, mean, variance = signed(4, 6, 5), stowgrad.zeros(6), stowgrad.ones(6)
    assert kept(F.batch_norm(x, mean, variance)) == 2 * 6 * 4
    weight = stowgrad.ones(6, requires_grad=True)
    assert kept(F.batch_norm(x, mean, variance, weight)) == x.nbytes + 3 * 6 * 4


def test_a_gate_keeps_its_two_operands():
    x, gate = signed(8, 9), signed(8, 9)
    assert kept(F.swiglu(x, gate)) == x.nbytes + gate.nbytes
    assert kept(F.glu(x.view(9, 8))) == x.nbytes


# -- running statistics ------------------------------------------------------------------------------------------------


def test_batch_norm_moves_the_running_statistics():
    x, mean, variance = signed(4, 3, 5), stowgrad.zeros(3), stowgrad.ones(3)
    F.batch_norm(x, mean, variance, training=True, momentum=0.25)
    values = x.detach().numpy()
    np.testing.assert_allclose(mean.numpy(), 0.25 * values.mean((0, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance.numpy(), 0.75 + 0.25 * values.var((0, 2), ddof=1), rtol=1e-5)


def test_the_running_statistics_may_move_before_backward():
    x, mean, variance = signed(4, 3, 5), stowgrad.zeros(3), stowgrad.ones(3)
    result = F.batch_norm(x, mean, variance)
    F.batch_norm(x.detach(), mean, variance, training=True)
    result.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1 / np.sqrt(1 + 1e-5), rtol=1e-5)


def test_instance_norm_moves_the_running_statistics_to_the_average_of_the_samples():
    x, mean, variance = signed(4, 3, 5), stowgrad.zeros(3), stowgrad.ones(3)
    F.instance_norm(x, mean, variance, momentum=0.5)
    values = x.detach().numpy()
    np.testing.assert_allclose(mean.numpy(), 0.5 * values.mean(2).mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance.numpy(), 0.5 + 0.5 * values.var(2, ddof=1).mean(0), rtol=1e-5)


def test_a_batch_of_nothing_leaves_the_running_statistics():
    mean, variance = stowgrad.zeros(3), stowgrad.ones(3)
    assert F.batch_norm(stowgrad.zeros(0, 3, 4), mean, variance, training=True).shape == (0, 3, 4)
    assert (mean.tolist(), variance.tolist()) == ([0.0] * 3, [1.0] * 3)


@pytest.mark.parametrize("norm", [F.layer_norm, F.rms_norm])
def test_the_weight_alone_has_second_derivatives(norm: Any):
    x, weight = stowgrad.tensor([[1.0, 2.0, 4.0]]), stowgrad.ones(3, requires_grad=True)
    (grad,) = stowgrad.autograd.grad(norm(x, (3,), weight).square().sum(), weight, create_graph=True)
    (again,) = stowgrad.autograd.grad(grad.sum(), weight)
    normal = norm(x, (3,)).numpy()[0]
    np.testing.assert_allclose(again.numpy(), 2 * normal**2, rtol=1e-5)


# -- the meta device ---------------------------------------------------------------------------------------------------

ON_META: dict[str, tuple[Call, tuple[int, ...]]] = {
    "alpha_dropout": (lambda x: F.alpha_dropout(x, 0.5, True), (4, 6)),
    "batch_norm": (lambda x: F.batch_norm(x, *stowgrad.empty(2, 6, device="meta"), x[1], x[2], training=True), (4, 6)),
    "bias_activation": (lambda x: F.bias_activation(x, x[0], "gelu"), (4, 6)),
    "elu": (F.elu, (4, 6)),
    "feature_alpha_dropout": (lambda x: F.feature_alpha_dropout(x, 0.5, True), (4, 6)),
    "glu": (F.glu, (4, 3)),
    "group_norm": (lambda x: F.group_norm(x, 2), (4, 6)),
    "gumbel_softmax": (lambda x: F.gumbel_softmax(x, hard=True), (4, 6)),
    "hardswish": (lambda x: F.hardswish(x * 1, inplace=True), (4, 6)),
    "instance_norm": (lambda x: F.instance_norm(x.view(2, 2, 6)), (2, 2, 6)),
    "leaky_relu": (lambda x: F.leaky_relu(x * 1, inplace=True), (4, 6)),
    "local_response_norm": (lambda x: F.local_response_norm(x.view(2, 2, 6), 3), (2, 2, 6)),
    "native_dropout": (lambda x: stowgrad.native_dropout(x, 0.5, True)[0], (4, 6)),
    "normalize": (F.normalize, (4, 6)),
    "prelu": (lambda x: F.prelu(x, x[0]), (4, 6)),
    "renorm": (lambda x: x.renorm(2, 0, 1.0), (4, 6)),
    "rms_norm": (lambda x: F.rms_norm(x, (6,)), (4, 6)),
    "rrelu": (lambda x: F.rrelu(x, training=True), (4, 6)),
    "swiglu": (lambda x: F.swiglu(x, x), (4, 6)),
}


@pytest.mark.parametrize("name", ON_META)
def test_on_the_meta_device_shapes_come_out(name: str):
    call, shape = ON_META[name]
    x = stowgrad.empty(4, 6, device="meta", requires_grad=True)
    result = call(x)
    assert (result.device.type, tuple(result.shape)) == ("meta", shape)
    result.sum().backward()
    assert tuple(x.grad.shape) == (4, 6)


# -- draws -------------------------------------------------------------------------------------------------------------

DRAWS: dict[str, Callable[..., Any]] = {
    "alpha_dropout": lambda x, **keywords: F.alpha_dropout(x, 0.5, True, **keywords),
    "dropout": lambda x, **keywords: F.dropout(x, 0.5, **keywords),
    "dropout1d": lambda x, **keywords: F.dropout1d(x, 0.5, **keywords),
    "dropout2d": lambda x, **keywords: F.dropout2d(x, 0.5, **keywords),
    "dropout3d": lambda x, **keywords: F.dropout3d(x.unsqueeze(-1).unsqueeze(-1), 0.5, **keywords),
    "feature_alpha_dropout": lambda x, **keywords: F.feature_alpha_dropout(x, 0.5, True, **keywords),
    "gumbel_softmax": F.gumbel_softmax,
    "rrelu": lambda x, **keywords: F.rrelu(x, training=True, **keywords),
}


@pytest.mark.filterwarnings("ignore:dropout2d")
@pytest.mark.parametrize("name", DRAWS)
def test_draws_come_from_the_generator(name: str):
    x = signed(6, 8, 10).detach()
    one, two, three = (DRAWS[name](x, generator=stowgrad.Generator().manual_seed(seed)) for seed in (1, 1, 2))
    assert one.tolist() == two.tolist()
    assert one.tolist() != three.tolist()


def test_alpha_dropout_keeps_mean_and_variance():
    x = stowgrad.randn(200_000, generator=stowgrad.Generator().manual_seed(1))
    y = F.alpha_dropout(x, 0.3, True, generator=stowgrad.Generator().manual_seed(2)).numpy()
    assert y.mean() == pytest.approx(0, abs=0.02)
    assert y.std() == pytest.approx(1, abs=0.02)


def test_channels_are_dropped_as_a_whole():
    x = stowgrad.ones(10, 20, 3, 4, requires_grad=True)
    y = F.dropout2d(x, 0.25, generator=stowgrad.Generator().manual_seed(1))
    y.sum().backward()
    channels = y.detach().numpy().reshape(200, 12)
    assert {tuple(row) for row in channels} == {(0.0,) * 12, (np.float32(1 / 0.75),) * 12}
    np.testing.assert_array_equal(x.grad.numpy(), y.detach().numpy())
    z = F.dropout1d(stowgrad.ones(20, 3), 0.25, generator=stowgrad.Generator().manual_seed(1))
    assert z.numpy().std(1).max() == 0


def test_dropout_in_place_writes_into_its_input():
    for call in (F.dropout, F.dropout1d, lambda x, p, **k: F.alpha_dropout(x, p, True, **k)):
        leaf = stowgrad.ones(20, 30, requires_grad=True)
        x = leaf * 1
        y = call(x, 0.5, inplace=True, generator=stowgrad.Generator().manual_seed(4))
        assert y is x
        other = stowgrad.ones(20, 30, requires_grad=True)
        expected = call(other, 0.5, generator=stowgrad.Generator().manual_seed(4))
        assert y.tolist() == expected.tolist()
        y.square().sum().backward()
        expected.square().sum().backward()
        np.testing.assert_allclose(leaf.grad.numpy(), other.grad.numpy(), rtol=1e-6)


def test_native_dropout_gives_the_mask():
    x = signed(7, 9)
    y, mask = stowgrad.native_dropout(x, 0.4, True, generator=stowgrad.Generator().manual_seed(4))
    assert mask.dtype == bool
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy() * mask.numpy() / 0.6, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), mask.numpy() / 0.6, rtol=1e-6)


def test_hard_gumbel_softmax_is_one_hot_and_has_the_gradient_of_the_soft_one():
    x = signed(5, 7)
    soft, hard = (
        F.gumbel_softmax(x, 0.7, hard, generator=stowgrad.Generator().manual_seed(4)) for hard in (False, True)
    )
    np.testing.assert_allclose(np.sort(hard.detach().numpy(), -1)[:, -2:], [[0, 1]] * 5, atol=1e-6)
    weight = signed(5, 7).detach()
    found = [stowgrad.autograd.grad((y * weight).sum(), x)[0].numpy() for y in (soft, hard)]
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-7)


# -- what is refused ---------------------------------------------------------------------------------------------------

THREE = stowgrad.ones(2, 4, 3)
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "elu in place": (
        lambda: F.elu(stowgrad.ones(2, requires_grad=True) * 1, -1.0, inplace=True).sum().backward(),
        RuntimeError,
        "negative alpha",
    ),
    "celu": (lambda: F.celu(THREE, 0.0), RuntimeError, "alpha cannot be 0"),
    "hardtanh": (lambda: F.hardtanh(THREE, 1.0, 0.0), ValueError, "min_val cannot be greater"),
    "softshrink": (lambda: F.softshrink(THREE, -1.0), RuntimeError, "lambda must be greater"),
    "rrelu": (lambda: F.rrelu(THREE, 0.5, 0.1, True), RuntimeError, "Lower bound"),
    "prelu": (lambda: F.prelu(THREE, stowgrad.ones(3)), RuntimeError, "Mismatch of parameter numbers"),
    "prelu dtype": (lambda: F.prelu(THREE, stowgrad.ones(4).double()), RuntimeError, "Type promoting"),
    "glu": (lambda: F.glu(THREE), RuntimeError, "must be even"),
    "glu 0-dim": (lambda: F.glu(stowgrad.ones(())), RuntimeError, "0-dimensional"),
    "swiglu": (lambda: F.swiglu(THREE, stowgrad.ones(2)), RuntimeError, "one shape"),
    "bias": (lambda: F.bias_activation(THREE, stowgrad.ones(2), "relu"), RuntimeError, "broadcast"),
    "activation": (lambda: F.bias_activation(THREE, stowgrad.ones(3), "sine"), ValueError, "sine"),
    "gelu": (lambda: F.geglu(THREE, THREE, "fast"), RuntimeError, "approximate"),
    "silu of ints": (lambda: F.silu(stowgrad.ones(2, dtype=stowgrad.long)), NotImplementedError, "silu"),
    "mish of ints": (lambda: F.mish(stowgrad.ones(2, dtype=stowgrad.long)), NotImplementedError, "mish"),
    "relu6 of bools": (lambda: F.relu6(stowgrad.ones(2, dtype=stowgrad.bool)), RuntimeError, "Bool"),
    "a list": (lambda: F.mish([1.0]), TypeError, "must be Tensor"),
    "batch_norm size": (lambda: F.batch_norm(THREE[:1, :, :1], None, None, training=True), ValueError, "more than 1"),
    "batch_norm eval": (lambda: F.batch_norm(THREE, None, None), RuntimeError, "evaluation mode"),
    "batch_norm one": (lambda: F.batch_norm(THREE, stowgrad.ones(4), None), ValueError, "both be None"),
    "batch_norm running": (
        lambda: F.batch_norm(THREE, stowgrad.ones(3), stowgrad.ones(3)),
        RuntimeError,
        "4 elements not 3",
    ),
    "batch_norm weight": (
        lambda: F.batch_norm(THREE, None, None, stowgrad.ones(3), training=True),
        RuntimeError,
        "weight",
    ),
    "batch_norm eps": (lambda: F.batch_norm(THREE, None, None, training=True, eps=0.0), ValueError, "eps"),
    "group_norm": (lambda: F.group_norm(THREE, 3), RuntimeError, "divisible"),
    "group_norm none": (lambda: F.group_norm(THREE, 0), RuntimeError, "divisible"),
    "group_norm vector": (lambda: F.group_norm(THREE[0, 0], 1), RuntimeError, "at least 2 dimensions"),
    "instance_norm": (lambda: F.instance_norm(THREE[:, :, :1]), ValueError, "more than 1 spatial"),
    "instance_norm running": (lambda: F.instance_norm(THREE, use_input_stats=False), RuntimeError, "to be defined"),
    "local_response_norm": (lambda: F.local_response_norm(THREE[0], 2), ValueError, "3D"),
    "local_response_norm size": (lambda: F.local_response_norm(THREE, 0), RuntimeError, "greater than zero"),
    "rms_norm": (lambda: F.rms_norm(THREE, (4,)), RuntimeError, "normalized_shape"),
    "rms_norm type": (lambda: F.rms_norm(THREE, 3), TypeError, "normalized_shape"),
    "renorm": (lambda: stowgrad.renorm(THREE[0, 0], 2, 0, 1.0), RuntimeError, "2 dimensions"),
    "renorm exponent": (lambda: stowgrad.renorm(THREE, -2, 0, 1.0), RuntimeError, "non-positive"),
    "renorm norm": (lambda: stowgrad.renorm(THREE, 2, 0, -1.0), RuntimeError, "maxnorm"),
    "renorm dim": (lambda: stowgrad.renorm(THREE, 2, 5, 1.0), IndexError, "Dimension out of range"),
    "dropout1d": (lambda: F.dropout1d(stowgrad.ones(1, 1, 3, 4)), RuntimeError, "2D or 3D"),
    "dropout2d": (lambda: F.dropout2d(THREE, 1.5), ValueError, "between 0 and 1"),
    "alpha_dropout": (lambda: stowgrad.alpha_dropout(THREE, 1.5, True), RuntimeError, "between 0 and 1"),
    "feature_dropout": (lambda: stowgrad.feature_dropout(THREE[0, 0], 0.5, True), RuntimeError, "2 dimensions"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name: str):
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("call", [F.dropout2d, F.dropout3d])
def test_dropout_of_channels_warns_of_other_shapes(call: Any):
    with pytest.warns(UserWarning, match="deprecated"):
        call(stowgrad.ones(2, 3))


@pytest.mark.parametrize("activation", ["gelu", "relu", "tanh"])
def test_the_gradients_of_a_sum_are_two_arrays(activation: str):
    x, bias = signed(3, 4), signed(3, 4)
    for _ in range(2):
        F.bias_activation(x, bias, activation).sum().backward()
    assert x.grad.tolist() == bias.grad.tolist()
    x.grad.zero_()
    assert bias.grad.numpy().any()
