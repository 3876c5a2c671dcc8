"""Resizing, sampling and unfolding of images."""

from __future__ import annotations

from typing import Any

import numpy as np

import stowgrad.nn.functional as F
from stowgrad.autograd.ops import fold

from .case import Case, rand


def _resized(**keywords: Any) -> Any:
    return lambda x: F.interpolate(x, **keywords)


def _sampled(*args: Any) -> Any:
    return lambda x, grid: F.grid_sample(x, grid, *args)


# Away from the lines between elements, where the slope changes: no multiple of 0.1 from 0.
_GRID = np.array([[[0.31, -0.47], [-0.85, 0.12]], [[1.13, 0.66], [-1.21, -0.94]]])[None]
_VOLUME = np.array([[[[[0.31, -0.47, 0.16], [-0.85, 0.12, 1.07]]]]])
_FOLDED = ((4, 5), (2, 2), (2, 3), (2, 1), (1, 0), (2, 1))
_UNFOLDED = ((4, 5), (2, 3), (2, 3), (2, 1), (0, 0), (1, 1))

CASES = [
    Case("upsample", _resized(size=(5, 3)), (rand(1, 2, 3, 4),), "nearest"),
    Case("upsample", _resized(scale_factor=1.7, mode="linear"), (rand(2, 2, 5),), "linear"),
    Case("upsample", _resized(size=(7, 3), mode="bilinear", align_corners=True), (rand(1, 2, 4, 5),), "bilinear"),
    Case("upsample", _resized(size=(4, 2, 3), mode="trilinear"), (rand(1, 1, 2, 3, 3),), "trilinear"),
    Case("upsample", _resized(size=(6, 3), mode="bicubic"), (rand(1, 2, 4, 5),), "bicubic"),
    Case("upsample", _resized(size=(3, 9), mode="bilinear", antialias=True), (rand(1, 2, 8, 5),), "antialias"),
    Case("upsample", _resized(size=(3, 4), mode="bicubic", antialias=True), (rand(1, 1, 8, 9),), "cubic, antialias"),
    Case("im2col", lambda x: fold.im2col(x, *_UNFOLDED), (rand(2, 2, 4, 5),)),
    Case("im2col", lambda x: F.unfold(x, (2, 3), 1, 1, 2), (rand(2, 4, 5),), "one sample"),
    Case("col2im", lambda x: fold.col2im(x, *_FOLDED), (rand(2, 12, 4),)),
    Case("grid_sampler", _sampled(), (rand(1, 2, 4, 5), _GRID), "bilinear"),
    Case("grid_sampler", _sampled("bilinear", "border", True), (rand(1, 2, 4, 5), _GRID), "border"),
    Case("grid_sampler", _sampled("bicubic", "reflection"), (rand(1, 2, 4, 5), _GRID), "bicubic, reflection"),
    Case("grid_sampler", _sampled("nearest"), (rand(1, 2, 4, 5), _GRID), "nearest"),
    Case("grid_sampler", _sampled("bilinear", "reflection", True), (rand(1, 2, 3, 4, 3), _VOLUME), "a volume"),
]
# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"grid_places"}
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"grid_sampler_backward"}
