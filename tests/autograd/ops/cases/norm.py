"""Normalisation."""

from __future__ import annotations

from typing import Any

import stowgrad
from stowgrad.autograd.ops import norm, norm_channels, norm_response

from .case import Case, rand


def _batch_norm(x: Any, weight: Any = None, bias: Any = None) -> Any:
    return norm_channels.batch_norm(x, weight, bias, 1e-3)[0]


def _given(x: Any, weight: Any = None, bias: Any = None) -> Any:
    mean, variance = stowgrad.tensor([[0.1, -0.2, 0.3], [0.5, 0.7, 0.9]], dtype=x.dtype, device=x.device)
    return norm_channels.batch_norm_given(x, weight, bias, mean, variance, 1e-3)[0]


def _group_norm(x: Any, weight: Any = None, bias: Any = None) -> Any:
    return norm_channels.group_norm(x, 2, weight, bias, 1e-3)[0]


def _response(size: int) -> Any:
    return lambda x: norm_response.local_response_norm(x, size, 0.9, 0.75, 1.5)


CASES = [
    Case("native_layer_norm", lambda x, w, b: norm.layer_norm(x, (4,), w, b), (rand(2, 3, 4), rand(4), rand(4))),
    Case("native_layer_norm", lambda x: norm.layer_norm(x, (3, 4)), (rand(2, 3, 4),), "plain, two dimensions"),
    Case("native_layer_norm", lambda x, w, b: norm.layer_norm(x, (4,), w, b), (rand(1, 4), rand(4), rand(4)), "a row"),
    Case("native_layer_norm", lambda x, w: norm.layer_norm(x, (4,), w), (rand(3, 4), rand(4)), "no bias"),
    Case("native_layer_norm", lambda x, w, b: norm.layer_norm(x, (9,), w, b), (rand(30, 9), rand(9), rand(9)), "rows"),
    Case("rms_norm", lambda x, w: norm.rms_norm(x, (4,), w, 1e-3), (rand(2, 3, 4), rand(4))),
    Case("rms_norm", lambda x, w: norm.rms_norm(x, (9,), w, 1e-3), (rand(30, 9), rand(9)), "rows"),
    Case("rms_norm", lambda x: norm.rms_norm(x, (3, 4), None, 1e-3), (rand(2, 3, 4),), "plain, two dimensions"),
    Case("rms_norm", lambda x, w: norm.rms_norm(x.t(), (4,), w, 1e-3), (rand(4, 3), rand(4)), "transposed"),
    Case("native_batch_norm", _batch_norm, (rand(4, 3, 5), rand(3), rand(3))),
    Case("native_batch_norm", _batch_norm, (rand(6, 3), rand(3), rand(3)), "no places"),
    Case("native_batch_norm", _batch_norm, (rand(4, 2, 6, 7), rand(2), rand(2)), "long channels"),
    Case("native_batch_norm", _batch_norm, (rand(4, 3, 5),), "plain"),
    Case("native_batch_norm", _batch_norm, (rand(4, 3, 5), rand(3)), "no bias"),
    Case("native_batch_norm", lambda x: _batch_norm(x.transpose(0, 1)), (rand(4, 3, 5),), "transposed"),
    Case("batch_norm_given", _given, (rand(4, 3, 5), rand(3), rand(3))),
    Case("batch_norm_given", _given, (rand(4, 3),), "plain, no places"),
    Case("native_group_norm", _group_norm, (rand(3, 4, 5), rand(4), rand(4))),
    Case("native_group_norm", _group_norm, (rand(3, 4), rand(4), rand(4)), "no places"),
    Case("native_group_norm", _group_norm, (rand(2, 4, 6, 7), rand(4), rand(4)), "long channels"),
    Case("native_group_norm", _group_norm, (rand(3, 4, 5),), "plain"),
    Case("native_group_norm", lambda x, w: _group_norm(x.transpose(0, 1), w), (rand(4, 3, 5), rand(4)), "transposed"),
    Case("local_response_norm", _response(3), (rand(2, 5, 3),)),
    Case("local_response_norm", _response(4), (rand(2, 5, 2, 2),), "an even size"),
    Case("local_response_norm", _response(9), (rand(2, 3, 4),), "more than there are"),
    Case("window_sum", lambda x: norm_response.window_sum(x, 1, 2), (rand(2, 5, 3),)),
    Case("window_sum", lambda x: norm_response.window_sum(x, 7, 0), (rand(2, 5),), "no places"),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {
    "local_response_norm_backward",
    "native_batch_norm_backward",
    "native_group_norm_backward",
    "native_layer_norm_backward",
    "rms_norm_backward",
}
