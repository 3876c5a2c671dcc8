"""Convolutions."""

from __future__ import annotations

from typing import Any

from stowgrad.autograd.functions import convolution as functions
from stowgrad.autograd.ops import convolution

from .case import Case, rand


def _conv(*args: Any, dims: int = 2, transposed: bool = False, **keywords: Any) -> Any:
    name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
    return lambda *tensors: getattr(functions, name)(*tensors, *args, **keywords)


def _weight_gradient(x: Any, y: Any) -> Any:
    return convolution.convolution_backward_weight(x, y, (3, 2), (2, 1), (1, 0), (1, 2), 2)


CASES = [
    Case("convolution", _conv(padding=1), (rand(2, 3, 5, 4), rand(4, 3, 3, 3), rand(4)), "bias"),
    Case("convolution", _conv(stride=2, padding=1), (rand(2, 3, 6, 5), rand(2, 3, 3, 3)), "strided"),
    Case("convolution", _conv(dilation=2, groups=2), (rand(1, 4, 6, 6), rand(2, 2, 3, 2), rand(2)), "dilated, groups"),
    Case("convolution", _conv(padding=1, groups=3), (rand(2, 3, 4, 4), rand(3, 1, 3, 3), rand(3)), "depthwise"),
    Case("convolution", _conv(), (rand(2, 3, 4, 4), rand(2, 3, 1, 1), rand(2)), "pointwise"),
    Case("convolution", _conv(padding="same"), (rand(1, 2, 4, 5), rand(2, 2, 2, 3)), "same size, even kernel"),
    Case("convolution", _conv(padding=1), (rand(3, 5, 4), rand(2, 3, 3, 3), rand(2)), "one sample"),
    Case("convolution", _conv(padding=1, dims=1), (rand(2, 3, 7), rand(4, 3, 3), rand(4)), "one dimension"),
    Case("convolution", _conv(stride=2, dims=3), (rand(1, 2, 4, 3, 5), rand(2, 2, 2, 2, 3)), "three dimensions"),
    Case(
        "convolution",
        _conv(2, 1, 1, 2, transposed=True),
        (rand(2, 4, 3, 3), rand(4, 1, 3, 3), rand(2)),
        "transposed, strided",
    ),
    Case("convolution", _conv(dims=1, transposed=True), (rand(2, 3, 5), rand(3, 2, 4), rand(2)), "transposed"),
    Case("convolution_backward_weight", _weight_gradient, (rand(2, 4, 5, 6), rand(2, 2, 3, 4))),
]
