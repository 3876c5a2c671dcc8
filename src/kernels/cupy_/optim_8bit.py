"""AdamW whose state is codes of 8 bits (NOTE [ Codes of 8 bits ] in the NumPy kernels).

A first kernel finds the new scale of each block, a second steps and packs each element: both unpack the old codes, so
that the new means are never stored at full width.
"""

from __future__ import annotations

import math

import cupy

from .launch import WIDE, Array, kernel

__all__ = ["adamw_8bit_step"]

_MEANS = (
    WIDE
    + """
struct Means { float g, m, v; };
// The gradient with decay, and both means with it.
template <class X> __device__ Means means(
    X grad, X param, double added_decay, bool maximize, float m, float v, double beta1, double beta2) {
    float g = maximize ? -(float)grad : (float)grad;
    g += (float)added_decay * (float)param;
    m = beta1 > 0.5 ? m + (float)(1 - beta1) * (g - m) : g - (float)beta1 * (g - m);
    v = (float)beta2 * v + (float)(1 - beta2) * g * g;
    Means all = {g, m, v};
    return all;
}
// The nearest entry of a map of 256 rising values.
static inline __device__ int nearest(const float *entries, float x) {
    int low = 0, high = 255;
    while (low < high) {
        int middle = (low + high) / 2;
        if ((entries[middle] + entries[middle + 1]) / 2 < x) low = middle + 1; else high = middle;
    }
    return low;
}
"""
)
_NUMBERS = "float64 shrink, float64 added_decay, bool maximize, float64 beta1, float64 beta2, int64 block_size"
_READ = """
    Means now = means<T>(grad{at}, (T)((W)shrink * (W)param{at}), added_decay, maximize,
        signed_map[codes_m{at}] * scale_m{block}, unsigned_map[codes_v{at}] * scale_v{block}, beta1, beta2);
"""
_SCALES = cupy.ElementwiseKernel(
    "raw T grad, raw T param, raw uint8 codes_m, raw uint8 codes_v, float32 scale_m, float32 scale_v,"
    f" raw float32 signed_map, raw float32 unsigned_map, {_NUMBERS}, int64 count",
    "float32 new_m, float32 new_v",
    f"""
    float most_m = 0, most_v = 0;
    for (long long j = i * block_size; j < count && j < (i + 1) * block_size; ++j) {{
        {_READ.format(at="[j]", block="")}
        float size = now.m < 0 ? -now.m : now.m;
        if (!(size <= most_m)) most_m = size;
        if (!(now.v <= most_v)) most_v = now.v;
    }}
    new_m = most_m;
    new_v = most_v;
    """,
    "stowgrad_adamw_8bit_scales",
    preamble=_MEANS,
)
_STEP = cupy.ElementwiseKernel(
    "T grad, raw float32 scale_m, raw float32 scale_v, raw float32 new_m, raw float32 new_v,"
    f" raw float32 signed_map, raw float32 unsigned_map, {_NUMBERS}, float64 step_size, float64 root2, float64 eps",
    "T param, uint8 codes_m, uint8 codes_v",
    f"""
    const long long block = i / block_size;
    {_READ.format(at="", block="[block]")}
    const float most_m = new_m[block], most_v = new_v[block];
    codes_m = nearest(&signed_map[0], most_m > 0 ? now.m / most_m : now.m);
    int code = nearest(&unsigned_map[0], most_v > 0 ? now.v / most_v : now.v);
    codes_v = now.v > 0 && code == 0 ? 1 : code;
    param = (T)((W)shrink * (W)param
        - (W)((float)step_size * now.m / (sqrt(now.v) / (float)root2 + (float)eps)));
    """,
    "stowgrad_adamw_8bit",
    preamble=_MEANS,
)


@kernel
def adamw_8bit_step(
    param: Array,
    grad: Array,
    exp_avg: Array,
    exp_avg_sq: Array,
    exp_avg_scale: Array,
    exp_avg_sq_scale: Array,
    signed_map: Array,
    unsigned_map: Array,
    *,
    block_size: int,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    maximize: bool = False,
    decoupled: bool = True,
) -> None:
    """One step of AdamW, or of Adam if not ``decoupled``, on codes and the scales of their blocks.

    The blocks are runs of ``block_size`` elements in C order, the last may be shorter; ``step`` counts from 1.
    """
    if param.size == 0:
        return
    shrink, added = (1 - lr * weight_decay, 0.0) if decoupled else (1.0, weight_decay)
    whole = cupy.ascontiguousarray(param)
    p, g, m, v = (x.reshape(-1) for x in (whole, cupy.ascontiguousarray(grad), exp_avg, exp_avg_sq))
    new_m, new_v = (cupy.empty(exp_avg_scale.shape, exp_avg_scale.dtype) for _ in range(2))
    maps, numbers = (signed_map, unsigned_map), (shrink, added, maximize, beta1, beta2, block_size)
    _SCALES(g, p, m, v, exp_avg_scale, exp_avg_sq_scale, *maps, *numbers, p.size, new_m, new_v)
    sizes = (lr / (1 - beta1**step), math.sqrt(1 - beta2**step), eps)
    _STEP(g, exp_avg_scale, exp_avg_sq_scale, new_m, new_v, *maps, *numbers, *sizes, p, m, v)
    cupy.copyto(exp_avg_scale, new_m)
    cupy.copyto(exp_avg_sq_scale, new_v)
    if whole is not param:
        cupy.copyto(param, whole)
