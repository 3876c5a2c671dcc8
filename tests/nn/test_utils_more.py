"""Sequences padded to one length, fused layers, norms known from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad import nn
from stowgrad.nn.utils import clip_grads_with_norm_, fusion, get_total_norm, rnn


@pytest.mark.parametrize("batch_first", [True, False])
def test_padding_and_back(batch_first: bool):
    lengths = [3, 1, 2]
    ones = [stowgrad.full((length, 2), float(length), requires_grad=True) for length in lengths]
    padded = rnn.pad_sequence(ones, batch_first, padding_value=-1.0)
    assert padded.shape == (3, 3, 2)
    row = padded[1] if batch_first else padded[:, 1]
    assert row.tolist() == [[1.0, 1.0], [-1.0, -1.0], [-1.0, -1.0]]
    padded.sum().backward()
    assert all(one.grad.numpy().tolist() == np.ones(one.shape).tolist() for one in ones)
    for one, again in zip(ones, rnn.unpad_sequence(padded, stowgrad.tensor(lengths), batch_first), strict=True):
        assert one.tolist() == again.tolist()
    left = rnn.pad_sequence(ones, True, padding_side="left")
    assert left[1].tolist() == [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    with pytest.raises(RuntimeError, match="padding_side"):
        rnn.pad_sequence(ones, padding_side="top")
    with pytest.raises(RuntimeError, match="non-empty"):
        rnn.pad_sequence([])


def trained_norm(kind: type[nn.Module], x: stowgrad.Tensor) -> nn.Module:
    norm = kind(4).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    norm(x)
    return norm.eval()


@pytest.mark.parametrize("bias", [True, False])
def test_fused_layers_do_the_same(bias: bool):
    rng = np.random.default_rng(0)
    x = stowgrad.tensor(rng.standard_normal((2, 3, 5, 5)))
    for layer, transposed in ((nn.Conv2d(3, 4, 3, bias=bias), False), (nn.ConvTranspose2d(3, 4, 3, bias=bias), True)):
        layer = layer.double().eval()
        norm = trained_norm(nn.BatchNorm2d, layer(x))
        fused = fusion.fuse_conv_bn_eval(layer, norm, transposed)
        np.testing.assert_allclose(fused(x).detach().numpy(), norm(layer(x)).detach().numpy(), rtol=1e-9, atol=1e-12)
    rows = stowgrad.tensor(rng.standard_normal((6, 3)))
    linear = nn.Linear(3, 4, bias=bias).double().eval()
    norm = trained_norm(nn.BatchNorm1d, linear(rows))
    fused = fusion.fuse_linear_bn_eval(linear, norm)
    np.testing.assert_allclose(fused(rows).detach().numpy(), norm(linear(rows)).detach().numpy(), rtol=1e-9)
    with pytest.raises(AssertionError, match="only for eval"):
        fusion.fuse_linear_bn_eval(linear.train(), norm)
    with pytest.raises(AssertionError, match="must not be None"):
        fusion.fuse_linear_bn_eval(linear.eval(), nn.BatchNorm1d(4, track_running_stats=False).eval())
    with pytest.raises(AssertionError, match=r"bn\.num_features"):
        fusion.fuse_linear_bn_eval(linear, nn.BatchNorm1d(3).eval())


def test_a_norm_known_from_elsewhere():
    parameter = nn.Parameter(stowgrad.zeros(2))
    parameter.grad = stowgrad.tensor([3.0, 4.0])
    norm = get_total_norm([parameter.grad])
    assert norm.item() == 5
    clip_grads_with_norm_(parameter, 10.0, norm)
    assert parameter.grad.tolist() == [3.0, 4.0]
    clip_grads_with_norm_([parameter], 1.0, norm)
    np.testing.assert_allclose(parameter.grad.numpy(), [0.6, 0.8], rtol=1e-5)
    with pytest.raises(RuntimeError, match="non-finite"):
        get_total_norm(stowgrad.tensor([np.inf]), error_if_nonfinite=True)
