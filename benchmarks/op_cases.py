"""The ops of the kernel table: how each is called, in stowgrad as in PyTorch, and on what, at three sizes.

``small`` is what a tiny model has, ``L2`` what stays in a core's cache, ``large`` what does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

SIZES = ("small", "L2", "large")
# Rows and columns of matrices of element-wise work: 1 KiB, 256 KiB and 16 MiB of float32.
ROWS = {"small": (16, 16), "L2": (256, 256), "large": (2048, 2048)}
PRODUCT = {"small": 16, "L2": 128, "large": 1024}
IMAGES = {"small": (1, 4, 8, 8), "L2": (2, 16, 28, 28), "large": (16, 64, 56, 56)}
HEADS = {"small": (1, 2, 16, 8), "L2": (2, 4, 128, 32), "large": (4, 8, 512, 64)}


class Case(NamedTuple):
    """One op.

    Attributes:
        name: PyTorch's.
        call: from the library, its functional module, and the tensors to the result.
        inputs: from a size to the arrays; those of floats get a gradient.
    """

    name: str
    call: Callable[..., Any]
    inputs: Callable[[str], list[np.ndarray]]


def _rng(size: str) -> np.random.Generator:
    return np.random.default_rng(SIZES.index(size))


def _uniform(size: str, *shapes: tuple[int, ...], low: float = 0.1, high: float = 1.9) -> list[np.ndarray]:
    rng = _rng(size)
    return [rng.uniform(low, high, shape).astype(np.float32) for shape in shapes]


def _one(size: str) -> list[np.ndarray]:
    return _uniform(size, ROWS[size])


def _centred(size: str) -> list[np.ndarray]:
    return _uniform(size, ROWS[size], low=-2.0, high=2.0)


def _two(size: str) -> list[np.ndarray]:
    return _uniform(size, ROWS[size], ROWS[size])


def _row_and_matrix(size: str) -> list[np.ndarray]:
    return _uniform(size, ROWS[size], ROWS[size][1:])


def _square(size: str) -> list[np.ndarray]:
    n = PRODUCT[size]
    return _uniform(size, (n, n), (n, n), low=-1.0)


def _with_index(size: str) -> list[np.ndarray]:
    rows, columns = ROWS[size]
    index = _rng(size).integers(0, rows, (rows, columns))
    return [*_one(size), index]


def _rows_of(size: str) -> list[np.ndarray]:
    rows, _ = ROWS[size]
    return [*_one(size), _rng(size).integers(0, rows, rows)]


def _mask(size: str) -> list[np.ndarray]:
    return [*_one(size), _rng(size).random(ROWS[size]) < 0.5]


def _classes(size: str) -> list[np.ndarray]:
    rows, columns = ROWS[size]
    return [*_centred(size), _rng(size).integers(0, columns, rows)]


def _image(size: str) -> list[np.ndarray]:
    return _uniform(size, IMAGES[size], low=-1.0)


def _image_and(*weight: int) -> Callable[[str], list[np.ndarray]]:
    def inputs(size: str) -> list[np.ndarray]:
        channels = IMAGES[size][1]
        shape = tuple(channels if part < 0 else part for part in weight)
        return _uniform(size, IMAGES[size], shape, low=-1.0)

    return inputs


def _affine_image(size: str) -> list[np.ndarray]:
    channels = (IMAGES[size][1],)
    return _uniform(size, IMAGES[size], channels, channels)


def _affine_rows(size: str) -> list[np.ndarray]:
    width = ROWS[size][1:]
    return _uniform(size, ROWS[size], width, width)


def _attention(size: str) -> list[np.ndarray]:
    return _uniform(size, *[HEADS[size]] * 3, low=-1.0)


def _probabilities(size: str) -> list[np.ndarray]:
    return _uniform(size, ROWS[size], ROWS[size], low=0.05, high=0.95)


def _method(name: str, *args: Any) -> Callable[..., Any]:
    return lambda lib, F, x, *others: getattr(x, name)(*others, *args)


def _elementwise() -> list[Case]:
    unary = (
        "neg", "abs", "sqrt", "rsqrt", "square", "reciprocal", "exp", "log", "log1p", "expm1", "sin", "cos", "tanh",
        "sigmoid", "erf",
    )  # fmt: skip
    binary = ("add", "sub", "mul", "div", "pow", "maximum", "minimum")
    cases = [Case(name, _method(name), _one) for name in unary]
    cases += [Case(name, _method(name), _two) for name in binary]
    return [
        *cases,
        Case("add, a row to a matrix", _method("add"), _row_and_matrix),
        Case("mul, a matrix by a row", _method("mul"), _row_and_matrix),
        Case("mul by a number", _method("mul", 1.5), _one),
        Case("pow 3", _method("pow", 3), _one),
        Case("where", lambda lib, F, x, mask, y: lib.where(mask, x, y), lambda s: [*_mask(s), *_two(s)[1:]]),
        Case("clamp", _method("clamp", -1.0, 1.0), _centred),
        Case("masked_fill", lambda lib, F, x, mask: x.masked_fill(mask, 0.5), _mask),
        Case("to float64", lambda lib, F, x: x.to(lib.float64), _one),
    ]


def _reductions() -> list[Case]:
    return [
        Case("sum", _method("sum"), _one),
        Case("sum, rows", _method("sum", 1), _one),
        Case("sum, columns", _method("sum", 0), _one),
        Case("mean", _method("mean"), _one),
        Case("prod, rows", _method("prod", 1), _one),
        Case("var, rows", _method("var", 1), _one),
        Case("std, rows", _method("std", 1), _one),
        Case("max, rows", lambda lib, F, x: x.max(1).values, _one),
        Case("amax, rows", _method("amax", 1), _one),
        Case("min, rows", lambda lib, F, x: x.min(1).values, _one),
        Case("logsumexp, rows", _method("logsumexp", 1), _centred),
        Case("cumsum, rows", _method("cumsum", 1), _one),
        Case("norm", lambda lib, F, x: lib.linalg.vector_norm(x), _one),
        Case("softmax", _method("softmax", 1), _centred),
        Case("log_softmax", _method("log_softmax", 1), _centred),
        Case("topk", lambda lib, F, x: x.topk(8, 1).values, _one),
        Case("sort", lambda lib, F, x: x.sort(1).values, _one),
    ]


def _products() -> list[Case]:
    def batch(size: str) -> list[np.ndarray]:
        n = PRODUCT[size] // 4
        return _uniform(size, (16, n, n), (16, n, n), low=-1.0)

    def vectors(size: str) -> list[np.ndarray]:
        return _uniform(size, ROWS[size][:1], ROWS[size][1:])

    def layer(size: str) -> list[np.ndarray]:
        n = PRODUCT[size]
        return _uniform(size, (n, n), (n, n), (n,), low=-1.0)

    return [
        Case("matmul", _method("matmul"), _square),
        Case("bmm", lambda lib, F, x, y: lib.bmm(x, y), batch),
        Case("linear", lambda lib, F, x, w, b: F.linear(x, w, b), layer),
        Case("einsum bij,bjk->bik", lambda lib, F, x, y: lib.einsum("bij,bjk->bik", x, y), batch),
        Case("tensordot", lambda lib, F, x, y: lib.tensordot(x, y, 1), _square),
        Case("outer", lambda lib, F, x, y: lib.outer(x, y), vectors),
    ]


def _shapes() -> list[Case]:
    def tripled(size: str) -> list[np.ndarray]:
        rows, columns = ROWS[size]
        return _uniform(size, (rows, columns), (rows, columns))

    return [
        Case("permute, copied", lambda lib, F, x: x.t().contiguous(), _one),
        Case("reshape of a transpose", lambda lib, F, x: x.t().reshape(-1), _one),
        Case("expand, copied", lambda lib, F, x: x[:1].expand(x.shape[0], -1).contiguous(), _one),
        Case("cat", lambda lib, F, x, y: lib.cat([x, y], 1), tripled),
        Case("stack", lambda lib, F, x, y: lib.stack([x, y]), tripled),
        Case("split, multiplied", lambda lib, F, x: lib.mul(*x.chunk(2, 1)), _one),
        Case("flip", lambda lib, F, x: x.flip(1), _one),
        Case("roll", lambda lib, F, x: x.roll(1, 1), _one),
        Case("tile", lambda lib, F, x: x.tile(2, 1), _one),
        Case("repeat_interleave", lambda lib, F, x: x.repeat_interleave(2, 0), _one),
        Case("pad", lambda lib, F, x: F.pad(x, (1, 1, 1, 1)), _one),
        Case("tril", lambda lib, F, x: x.tril(), _one),
        Case("diagonal", lambda lib, F, x: x.diagonal() * 2.0, _one),
        Case("slice", lambda lib, F, x: x[1:-1, 1:-1] * 2.0, _one),
        Case("index, rows", lambda lib, F, x, i: x[i], _rows_of),
        Case("index_select", lambda lib, F, x, i: x.index_select(0, i), _rows_of),
        Case("gather", lambda lib, F, x, i: x.gather(0, i), _with_index),
        Case("take_along_dim", lambda lib, F, x, i: x.take_along_dim(i, 0), _with_index),
        Case("scatter_add", lambda lib, F, x, i: x.scatter_add(0, i, x), _with_index),
        Case("index_add", lambda lib, F, x, i: x.index_add(0, i, x), _rows_of),
        Case("masked_select", lambda lib, F, x, mask: x.masked_select(mask), _mask),
        Case("embedding", lambda lib, F, x, i: F.embedding(i, x), _rows_of),
    ]


def _images() -> list[Case]:
    return [
        Case("conv2d 3x3", lambda lib, F, x, w: F.conv2d(x, w, padding=1), _image_and(-1, -1, 3, 3)),
        Case("conv2d 1x1", lambda lib, F, x, w: F.conv2d(x, w), _image_and(-1, -1, 1, 1)),
        Case(
            "conv2d 3x3, stride 2", lambda lib, F, x, w: F.conv2d(x, w, stride=2, padding=1), _image_and(-1, -1, 3, 3)
        ),
        Case(
            "conv2d 3x3, depthwise",
            lambda lib, F, x, w: F.conv2d(x, w, padding=1, groups=x.shape[1]),
            _image_and(-1, 1, 3, 3),
        ),
        Case("conv1d", lambda lib, F, x, w: F.conv1d(x.flatten(2), w, padding=1), _image_and(-1, -1, 3)),
        Case("conv_transpose2d", lambda lib, F, x, w: F.conv_transpose2d(x, w, stride=2), _image_and(-1, -1, 2, 2)),
        Case("max_pool2d", lambda lib, F, x: F.max_pool2d(x, 2), _image),
        Case("avg_pool2d", lambda lib, F, x: F.avg_pool2d(x, 2), _image),
        Case("adaptive_avg_pool2d", lambda lib, F, x: F.adaptive_avg_pool2d(x, 1), _image),
        Case("interpolate, nearest", lambda lib, F, x: F.interpolate(x, scale_factor=2), _image),
        Case("interpolate, bilinear", lambda lib, F, x: F.interpolate(x, scale_factor=2, mode="bilinear"), _image),
        Case("batch_norm", lambda lib, F, x, w, b: F.batch_norm(x, None, None, w, b, True), _affine_image),
        Case("group_norm", lambda lib, F, x, w, b: F.group_norm(x, 4, w, b), _affine_image),
    ]


def _networks() -> list[Case]:
    return [
        Case("relu", lambda lib, F, x: F.relu(x), _centred),
        Case("leaky_relu", lambda lib, F, x: F.leaky_relu(x), _centred),
        Case("gelu", lambda lib, F, x: F.gelu(x), _centred),
        Case("gelu, tanh", lambda lib, F, x: F.gelu(x, approximate="tanh"), _centred),
        Case("silu", lambda lib, F, x: F.silu(x), _centred),
        Case("softplus", lambda lib, F, x: F.softplus(x), _centred),
        Case("elu", lambda lib, F, x: F.elu(x), _centred),
        Case("glu", lambda lib, F, x: F.glu(x), _centred),
        Case("layer_norm", lambda lib, F, x, w, b: F.layer_norm(x, w.shape, w, b), _affine_rows),
        Case("rms_norm", lambda lib, F, x, w, b: F.rms_norm(x, w.shape, w), _affine_rows),
        Case("dropout", lambda lib, F, x: F.dropout(x, 0.1), _one),
        Case("cross_entropy", lambda lib, F, x, t: F.cross_entropy(x, t), _classes),
        Case("nll_loss", lambda lib, F, x, t: F.nll_loss(x, t), _classes),
        Case("mse_loss", lambda lib, F, x, y: F.mse_loss(x, y), _two),
        Case("l1_loss", lambda lib, F, x, y: F.l1_loss(x, y), _two),
        Case("smooth_l1_loss", lambda lib, F, x, y: F.smooth_l1_loss(x, y), _two),
        Case("bce_with_logits", lambda lib, F, x, y: F.binary_cross_entropy_with_logits(x, y), _probabilities),
        Case("kl_div", lambda lib, F, x, y: F.kl_div(x, y, reduction="batchmean"), _probabilities),
        Case(
            "attention, causal",
            lambda lib, F, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
            _attention,
        ),
        Case("attention", lambda lib, F, q, k, v: F.scaled_dot_product_attention(q, k, v), _attention),
    ]


CASES = [*_elementwise(), *_reductions(), *_products(), *_shapes(), *_images(), *_networks()]
