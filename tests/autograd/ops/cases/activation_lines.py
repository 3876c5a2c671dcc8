"""Activation functions of straight lines, and dropout for selu."""

from __future__ import annotations

from typing import Any

import numpy as np

import stowgrad
from stowgrad.autograd.ops import activation_lines as lines
from stowgrad.autograd.ops import dropout
from stowgrad.autograd.random import Generator

from .case import Case, apart, rand, unary_cases


def _bits(x: Any) -> Any:
    return stowgrad.tensor(np.packbits(np.arange(x.numel()) % 3 > 0), device=x.device)


def _rrelu(x: Any) -> Any:
    return stowgrad.rrelu(x, 0.1, 0.6, True, Generator().manual_seed(3))


def _alpha_dropout(x: Any, p: float) -> Any:
    return dropout.alpha_dropout(x, p, *lines.drawn(x.numel(), Generator().manual_seed(3)))


CASES = [
    *unary_cases("hardtanh", lambda x: lines.hardtanh(x, -0.43, 0.77), apart),
    *unary_cases("threshold", lambda x: lines.threshold(x, 0.23, 7.0), apart),
    *unary_cases("hardshrink", lambda x: lines.hardshrink(x, 0.35), apart),
    *unary_cases("softshrink", lambda x: lines.softshrink(x, 0.35), apart),
    *unary_cases("leaky_relu", lambda x: lines.leaky_relu(x, 0.2), apart),
    *unary_cases("hardsigmoid", lines.hardsigmoid, lambda *sizes: apart(*sizes) * 0.97),
    *unary_cases("rrelu_with_noise", _rrelu, apart),
    Case("masked_slope", lambda x: lines.masked_slope(x, _bits(x), 2.0, 0.3), (rand(5, 7),)),
    Case("masked_slope", lambda x: lines.masked_slope(x, _bits(x), 0.5, 0.0), (rand(5, 7),), "0 elsewhere"),
    Case("rrelu_slope", lambda x: lines.rrelu_slope(x, _bits(x), 0.1, 0.6, 3, 0), (rand(5, 7),)),
    Case("alpha_dropout", lambda x: _alpha_dropout(x, 0.3), (rand(5, 7),)),
    Case("alpha_dropout", lambda x: _alpha_dropout(x, 0.3), (rand(60, 40),), "large"),
]
