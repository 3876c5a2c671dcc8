"""Convolution, pooling and images: what PyTorch has no samples of, and arguments that don't fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .op_cases import FLOATS, Case, signed, smooth

Call = Callable[..., Any]


def _top(name: str, *args: Any, **keywords: Any) -> Call:
    return lambda lib, *tensors: getattr(lib, name)(*tensors, *args, **keywords)


def _functional(name: str, *args: Any, **keywords: Any) -> Call:
    return lambda lib, *tensors: getattr(lib.nn.functional, name)(*tensors, *args, **keywords)


_IMAGES, _ROWS, _VOLUMES = signed(2, 3, 7, 6), signed(2, 3, 9), signed(1, 2, 5, 4, 5)
# Away from the lines between elements, where slopes change.
_GRID = np.array([[0.31, -0.47], [-0.85, 0.12], [1.13, 0.66], [-1.21, -0.94]]).reshape(1, 2, 2, 2).repeat(2, axis=0)

_ROWS_OF_CASES: list[tuple[str, str, Call, tuple[Any, ...]]] = [
    ("adaptive_avg_pool1d", "top level", _top("adaptive_avg_pool1d", 4), (_ROWS,)),
    ("adaptive_max_pool1d", "top level", _top("adaptive_max_pool1d", 4), (_ROWS,)),
    ("avg_pool1d", "top level", _top("avg_pool1d", 3, 2, 1, True, False), (_ROWS,)),
    ("max_pool1d", "top level", _top("max_pool1d", 3, 2, 1), (_ROWS,)),
    ("max_pool2d", "top level", _top("max_pool2d", (3, 2), 2, 1, ceil_mode=True), (_IMAGES,)),
    ("max_pool3d", "top level", _top("max_pool3d", 2, 1), (_VOLUMES,)),
    ("grid_sampler", "bilinear", _top("grid_sampler", 0, 1, False), (_IMAGES, _GRID)),
    ("grid_sampler", "bicubic", _top("grid_sampler", 2, 2, True), (_IMAGES, _GRID)),
    ("grid_sampler_2d", "nearest", _top("grid_sampler_2d", 1, 0, True), (_IMAGES, _GRID)),
    ("affine_grid", "images", _functional("affine_grid", (2, 1, 4, 5), False), (signed(2, 2, 3),)),
    ("affine_grid", "corners, one row", _functional("affine_grid", (2, 1, 1, 5), True), (signed(2, 2, 3),)),
    ("affine_grid", "volumes", _functional("affine_grid", (1, 2, 2, 3, 4), True), (signed(1, 3, 4),)),
    ("affine_grid", "matrix too small", _functional("affine_grid", (1, 2, 3, 3), False), (signed(1, 2, 2),)),
    ("fold", "batch", _functional("fold", (4, 5), (2, 3), padding=(0, 1)), (signed(2, 12, 15),)),
    ("fold", "one sample", _functional("fold", (5, 5), 2, 2, 1, 2), (signed(8, 9),)),
    ("fold", "columns missing", _functional("fold", (4, 5), (2, 3)), (signed(2, 12, 4),)),
    ("fold", "rows missing", _functional("fold", (4, 5), (2, 3)), (signed(2, 11, 9),)),
    ("lp_pool1d", "norm 2", _functional("lp_pool1d", 2, 3, 2), (smooth(2, 3, 9),)),
    ("lp_pool2d", "norm 3", _functional("lp_pool2d", 3.0, (2, 3), 2, True), (smooth(2, 3, 7, 6),)),
    ("lp_pool3d", "norm 1", _functional("lp_pool3d", 1.0, 2), (smooth(1, 2, 5, 4, 5),)),
    ("upsample", "nearest", _functional("upsample", scale_factor=2), (_IMAGES,)),
    ("upsample", "bilinear", _functional("upsample", (9, 4), mode="bilinear", align_corners=False), (_IMAGES,)),
    ("upsample_nearest", "factor", _functional("upsample_nearest", scale_factor=2), (_IMAGES,)),
    ("interpolate", "antialias", _functional("interpolate", (3, 4), mode="bilinear", antialias=True), (_IMAGES,)),
    ("interpolate", "cubic", _functional("interpolate", (3, 9), mode="bicubic", antialias=True), (_IMAGES,)),
    ("interpolate", "neither", _functional("interpolate"), (_IMAGES,)),
    ("interpolate", "both", _functional("interpolate", 3, 2.0), (_IMAGES,)),
    ("interpolate", "mode", _functional("interpolate", 3, mode="linear"), (_IMAGES,)),
    ("interpolate", "corners of nearest", _functional("interpolate", 3, align_corners=True), (_IMAGES,)),
    ("interpolate", "size 0", _functional("interpolate", (0, 3)), (_IMAGES,)),
    ("interpolate", "sizes", _functional("interpolate", (3, 3, 3)), (_IMAGES,)),
    ("conv2d", "strings", _top("conv2d", padding="same"), (_IMAGES, signed(4, 3, 2, 3))),
    ("conv2d", "string, strided", _top("conv2d", padding="same", stride=2), (_IMAGES, signed(4, 3, 3, 3))),
    ("conv2d", "no such string", _top("conv2d", padding="full"), (_IMAGES, signed(4, 3, 3, 3))),
    ("conv2d", "channels", _top("conv2d"), (_IMAGES, signed(4, 2, 3, 3))),
    ("conv2d", "dimensions", _top("conv2d"), (_ROWS[0], signed(4, 3, 3, 3))),
    ("conv2d", "kernel too large", _top("conv2d"), (_IMAGES, signed(4, 3, 8, 3))),
    ("conv2d", "groups", _top("conv2d", groups=2), (_IMAGES, signed(4, 3, 3, 3))),
    ("conv2d", "many channels", _top("conv2d", padding=1), (signed(2, 48, 40, 40), signed(48, 48, 3, 3), signed(48))),
    ("conv2d", "bias", _top("conv2d"), (_IMAGES, signed(4, 3, 3, 3), signed(3))),
    ("conv2d", "strides", _top("conv2d", stride=(1, 2, 3)), (_IMAGES, signed(4, 3, 3, 3))),
    ("conv2d", "stride 0", _top("conv2d", stride=0), (_IMAGES, signed(4, 3, 3, 3))),
    ("conv_transpose2d", "output padding", _top("conv_transpose2d", output_padding=1), (_IMAGES, signed(3, 4, 3, 3))),
    ("max_pool2d", "padding", _functional("max_pool2d", 3, padding=2), (_IMAGES,)),
    ("max_pool2d", "too small", _functional("max_pool2d", 9), (_IMAGES,)),
    ("avg_pool2d", "divisor 0", _functional("avg_pool2d", 3, divisor_override=0), (_IMAGES,)),
    ("adaptive_avg_pool2d", "negative", _functional("adaptive_avg_pool2d", (-1, 2)), (_IMAGES,)),
    ("unfold", "too small", _functional("unfold", 9), (_IMAGES,)),
    ("grid_sample", "mode", _functional("grid_sample", "cubic", align_corners=False), (_IMAGES, _GRID)),
    ("grid_sample", "batch", _functional("grid_sample", align_corners=False), (_IMAGES[:1], _GRID)),
]
CASES = [Case(name, label, call, inputs, FLOATS) for name, label, call, inputs in _ROWS_OF_CASES]
