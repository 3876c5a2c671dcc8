"""Layers that are computed as one outside of training."""

from __future__ import annotations

import copy
from typing import Any

from ...autograd.creation import ones_like, zeros_like
from ...autograd.grad_mode import no_grad
from ...autograd.tensor import Tensor
from ..modules.module import Module
from ..parameter import Parameter


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what a convolution and the batch norm behind it do, both in evaluation mode.

    Args:
        conv, bn: the modules, which stay as they are.
        transpose: whether the convolution is a transposed one.

    Raises:
        AssertionError: for a module in training mode, or a batch norm without running statistics.
    """
    fused, statistics = _prepared(conv, bn)
    fused.weight, fused.bias = _fused(conv.weight, conv.bias, statistics, _channels(conv.weight, transpose))
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused convolution.

    Args:
        conv_w, conv_b: of the convolution.
        bn_rm, bn_rv, bn_eps, bn_w, bn_b: running mean and variance, what is added to it, weight and bias of the norm.
        transpose: whether the convolution is a transposed one.
    """
    return _fused(conv_w, conv_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), _channels(conv_w, transpose))


def _channels(weight: Tensor, transpose: bool) -> list[int]:
    """The shape of numbers that belong to the output channels of a weight."""
    shape = [1] * weight.dim()
    shape[1 if transpose else 0] = -1
    return shape


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A `Linear` that does what one and the batch norm behind it do, both in evaluation mode.

    Raises:
        AssertionError: for a module in training mode, a batch norm without running statistics, or of other sizes.
    """
    fused, statistics = _prepared(linear, bn)
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            f"To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got {linear.out_features}"
            f" and {bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(linear.weight, linear.bias, *statistics)
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the fused `Linear`; the arguments are those of `fuse_conv_bn_weights`."""
    return _fused(linear_w, linear_b, (bn_rm, bn_rv, bn_eps, bn_w, bn_b), [-1, 1])


def _prepared(layer: Module, bn: Any) -> tuple[Any, tuple[Any, ...]]:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return copy.deepcopy(layer), (bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)


def _fused(weight: Tensor, bias: Tensor | None, norm: tuple[Any, ...], shape: list[int]) -> tuple[Parameter, Parameter]:
    mean, variance, eps, scale, shift = norm
    needs_grad = weight.requires_grad, weight.requires_grad if bias is None else bias.requires_grad
    with no_grad():
        start = zeros_like(mean) if bias is None else bias
        scale = ones_like(mean) if scale is None else scale
        shift = zeros_like(mean) if shift is None else shift
        factor = scale * (variance + eps).rsqrt()
        new_weight = (weight * factor.reshape(shape)).to(dtype=weight.dtype)
        new_bias = ((start - mean) * factor + shift).to(dtype=start.dtype)
    return Parameter(new_weight, needs_grad[0]), Parameter(new_bias, needs_grad[1])
