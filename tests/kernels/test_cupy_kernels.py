"""The kernels on CuPy against those on NumPy: on the double of CuPy, and on a GPU where there is one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import backend, numpy_

from ..fake_cupy.places import PLACES, cupy_at

Rng = np.random.Generator


@pytest.fixture(scope="module", params=PLACES)
def cupy(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cupy_at(request.param) as module:
        yield module


def run_on(cupy: Any, name: str, args: list[Any], keywords: dict[str, Any]) -> tuple[list[Any], Any]:
    """The arguments after a kernel has run, as NumPy arrays, and what it returned."""
    known: dict[int, Any] = {}
    given = []
    for arg in args:
        if isinstance(arg, np.ndarray):
            if id(arg) not in known:
                known[id(arg)] = _on_device(cupy, arg)
            given.append(known[id(arg)])
        else:
            given.append(arg)
    masks = {key: _on_device(cupy, value) for key, value in keywords.items() if isinstance(value, np.ndarray)}
    result = getattr(backend("cuda"), name)(*given, **(keywords | masks))
    return [value.get() if isinstance(value, cupy.ndarray) else value for value in given], result


def _on_device(cupy: Any, array: np.ndarray[Any, Any]) -> Any:
    """A device array of the same values and the same order of axes."""
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    dense = np.ascontiguousarray(array.transpose(order))
    device = cupy.empty(dense.shape, dense.dtype)
    device.set(dense)
    return device if array.ndim < 2 else device.transpose([order.index(axis) for axis in range(array.ndim)])


def compare(cupy: Any, name: str, *args: Any, tolerance: float | None = None, **keywords: Any) -> None:
    """Run a kernel in both places and compare all arrays afterwards."""
    found, result = run_on(cupy, name, list(args), keywords)
    with np.errstate(all="ignore"):
        expected = getattr(numpy_, name)(*args, **keywords)
    if expected is not None:
        assert result == pytest.approx(expected, rel=1e-5)
    for number, (mine, theirs) in enumerate(zip(found, args, strict=True)):
        if isinstance(theirs, np.ndarray):
            bound = tolerance or (1e-5 if theirs.dtype == np.float32 else 1e-11)
            np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound, err_msg=f"argument {number} of {name}")


FLOATS = [np.float32, np.float64]


def words(text: str) -> list[str]:
    return text.split()


UNARY = words(
    "abs arctan arcsinh cbrt ceil conjugate cos cosh erf exp exp2 expm1 floor isfinite isinf isnan negative rint sign"
    " sigmoid silu sin sinh square tan tanh trunc"
)
POSITIVE = words("log log10 log1p log2 reciprocal rsqrt sqrt")
INSIDE = words("arcsin arccos arctanh")
BINARY = words(
    "add arctan2 copysign divide equal floor_divide fmax fmin fmod greater greater_equal hypot less less_equal"
    " logaddexp logaddexp2 maximum minimum multiply not_equal power remainder subtract"
)
BOOLEAN = words("equal greater greater_equal isfinite isinf isnan less less_equal not_equal")


def out_like(x: np.ndarray[Any, Any], name: str = "") -> np.ndarray[Any, Any]:
    return np.zeros(x.shape, bool if name in BOOLEAN else x.dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY + POSITIVE + INSIDE + ["arccosh"])
def test_unary(name: str, dtype: type, cupy: Any, rng: Rng) -> None:
    x = rng.standard_normal((3, 5)).astype(dtype)
    if name in POSITIVE:
        x = np.abs(x) + dtype(0.1)
    elif name in INSIDE:
        x = np.clip(x, -0.9, 0.9)
    elif name == "arccosh":
        x = np.abs(x) + dtype(1)
    compare(cupy, name, x, out_like(x, name))
    compare(cupy, name, x.T, out_like(x.T, name))


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, cupy: Any, rng: Rng) -> None:
    x, y = np.abs(rng.standard_normal((2, 3, 5))).astype(np.float32) + np.float32(0.5)
    compare(cupy, name, x, y, out_like(x, name))
    compare(cupy, name, x, y[0], out_like(x, name))
    compare(cupy, name, x, 2.0, out_like(x, name))
    compare(cupy, name, 2.0, x, out_like(x, name))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_integers(name: str, cupy: Any, rng: Rng) -> None:
    x, y = rng.integers(0, 100, (2, 6))
    compare(cupy, name, x, y, np.zeros_like(x))


def test_logic(cupy: Any, rng: Rng) -> None:
    x, y = rng.random((2, 9)) > 0.5
    for name in ("logical_and", "logical_or", "logical_xor"):
        compare(cupy, name, x, y, np.zeros_like(x))
    compare(cupy, "logical_not", x, np.zeros_like(x))
    compare(cupy, "bitwise_not", x, np.zeros_like(x))


def test_writing(cupy: Any, rng: Rng) -> None:
    x, y = rng.standard_normal((2, 4, 6)).astype(np.float32)
    compare(cupy, "copy", x.T, np.zeros((6, 4), np.float32))
    compare(cupy, "copy", x[0], np.zeros((4, 6), np.float64))
    compare(cupy, "copy", x, np.zeros((4, 6), np.int64))
    compare(cupy, "copy", 2.5, np.zeros((4, 6), np.float32))
    compare(cupy, "fill", np.zeros((4, 6), np.int64), 3)
    compare(cupy, "accumulate_", x, y.copy())
    compare(cupy, "scale_", y.copy(), 0.5)
    compare(cupy, "axpy_", 0.25, x, y.copy())
    compare(cupy, "where", x > 0, x, y, np.zeros_like(x))
    compare(cupy, "where", x > 0, 1.0, y, np.zeros_like(x))
    compare(cupy, "clamp", x, np.zeros_like(x), low=-0.5, high=0.5)
    compare(cupy, "clamp", x, np.zeros_like(x), low=-0.5)
    compare(cupy, "clamp", x, np.zeros_like(x), high=0.5)


@pytest.mark.parametrize("shape", [(4, 6), (1, 6)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_copies_between_host_and_device(shape: tuple[int, ...], dtype: type, cupy: Any, rng: Rng) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    device, back = cupy.empty((4, 6), np.dtype(dtype)), np.empty((4, 6), dtype)
    backend("cuda").copy(x, device)
    backend("cuda").copy(device, back)
    np.testing.assert_array_equal(back, np.broadcast_to(x, (4, 6)).astype(dtype))
    strided = np.zeros((4, 12), dtype)[:, ::2]
    backend("cuda").copy(device, strided)
    np.testing.assert_array_equal(strided, back)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu(approximate: str, dtype: type, cupy: Any, rng: Rng) -> None:
    x = np.concatenate([rng.standard_normal(50) * 3, [0, 30, -30, 1e4, -1e4]]).astype(dtype)
    compare(cupy, "gelu", x, np.zeros_like(x), approximate=approximate)
    compare(cupy, "gelu_backward", np.ones_like(x), x, np.zeros_like(x), approximate=approximate)


@pytest.mark.parametrize("name", ["sigmoid_backward", "tanh_backward", "silu_backward"])
def test_activations_backward(name: str, cupy: Any, rng: Rng) -> None:
    grad, x = rng.standard_normal((2, 5, 7)).astype(np.float32)
    compare(cupy, name, grad, x, np.zeros_like(x))
    compare(cupy, name, grad.T, x.T, np.zeros((7, 5), np.float32))


@pytest.mark.parametrize("size", [0, 1, 8, 13, 100])
def test_relu(size: int, cupy: Any, rng: Rng) -> None:
    x = rng.standard_normal(size).astype(np.float32)
    x[:1] = np.nan
    mask = np.zeros((size + 7) // 8, np.uint8)
    compare(cupy, "relu", x, np.zeros_like(x), mask)
    compare(cupy, "relu_backward", np.arange(size, dtype=np.float32), mask, np.zeros_like(x))
    compare(cupy, "unpack_mask", mask, np.zeros(size, np.float32))


@pytest.mark.parametrize("axes", [None, (), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin"])
def test_reductions(name: str, axes: tuple[int, ...] | None, cupy: Any, rng: Rng) -> None:
    x = rng.standard_normal((3, 4, 5)).astype(np.float32)
    shape = [1 if axes is None or axis in axes else length for axis, length in enumerate(x.shape)]
    compare(cupy, name, x, np.zeros(shape, np.float32), axes=axes)
    compare(
        cupy,
        name,
        x.T,
        np.zeros([1 if axes is None or d in axes else n for d, n in enumerate((5, 4, 3))], "f"),
        axes=axes,
    )


def test_other_reductions(cupy: Any, rng: Rng) -> None:
    x = rng.integers(0, 3, (4, 5))
    compare(cupy, "sum", x, np.zeros(4, np.int64), axes=(1,))
    compare(cupy, "argmax", x, np.zeros(4, np.int64), axis=1)
    compare(cupy, "argmin", x, np.zeros((), np.int64))
    compare(cupy, "sum_of_squares", rng.standard_normal((3, 4)).astype(np.float32))
    y = rng.standard_normal((2, 3, 4))
    for shape in ((2, 3, 4), (3, 4), (1, 4), (1, 1, 1), ()):
        compare(cupy, "sum_to", y, np.zeros(shape))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_family(axis: int, cupy: Any, rng: Rng) -> None:
    x, grad = rng.standard_normal((2, 3, 4, 5)).astype(np.float32)
    out = np.zeros_like(x)
    for name in ("softmax", "log_softmax"):
        compare(cupy, name, x, out, axis=axis)
        compare(cupy, f"{name}_backward", grad, out, np.zeros_like(x), axis=axis)
    lse = np.zeros([1 if d == axis % 3 else n for d, n in enumerate(x.shape)], np.float32)
    compare(cupy, "logsumexp", x, lse, axis=axis)
    compare(cupy, "logsumexp_backward", np.ones_like(lse), x, lse, np.zeros_like(x), axis=axis)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", FLOATS)
def test_norms(dtype: type, affine: bool, cupy: Any, rng: Rng) -> None:
    x, grad = rng.standard_normal((2, 6, 9)).astype(dtype)
    weight, bias = rng.standard_normal((2, 9)).astype(dtype) if affine else (None, None)
    out, (mean, rstd) = np.zeros_like(x), np.zeros((2, 6), dtype)
    compare(cupy, "layer_norm", x, weight, bias, out, mean, rstd, eps=1e-5)
    outs = [np.zeros_like(x), *(np.zeros((2, 9), dtype) if affine else (None, None))]
    compare(cupy, "layer_norm_backward", grad, x, weight, mean, rstd, *outs)
    compare(cupy, "rms_norm", x, weight, out, rstd, eps=1e-5)
    compare(cupy, "rms_norm_backward", grad, x, weight, rstd, *outs[:2])
    if affine:
        compare(cupy, "add_bias", x, bias, np.zeros_like(x))
        compare(cupy, "bias_grad", grad, np.zeros(9, dtype))


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (6, 4, 5))])
def test_matmul(shapes: tuple[tuple[int, ...], ...], cupy: Any, rng: Rng) -> None:
    x, y = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    compare(cupy, "matmul", x, y, np.zeros_like(x @ y))
    y = np.ascontiguousarray(y.swapaxes(-1, -2)).swapaxes(-1, -2)
    compare(cupy, "matmul", x, y, np.zeros_like(x @ y))


def test_linear(cupy: Any, rng: Rng) -> None:
    x, weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((6, 4), (5, 4), (5,)))
    compare(cupy, "linear", x, weight, bias, np.zeros((6, 5), np.float32))
    compare(cupy, "linear", x, weight, None, np.zeros((6, 5), np.float32))
    grad = rng.standard_normal((6, 5)).astype(np.float32)
    outs = [np.zeros_like(x), np.zeros_like(weight), np.zeros_like(bias)]
    compare(cupy, "linear_backward", grad, x, weight, *outs)
    compare(cupy, "linear_backward", grad, None, weight, outs[0], None, None)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("chunk_bytes", [64, 1 << 20])
def test_losses(chunk_bytes: int, bias: bool, cupy: Any, rng: Rng) -> None:
    x, weight, grad = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, 4), (9, 4), (7,)))
    targets = rng.integers(0, 9, 7)
    targets[2] = -100
    logits, (losses, lse) = x @ weight.T, np.zeros((2, 7), np.float32)
    compare(cupy, "cross_entropy", logits, targets, losses, lse)
    compare(cupy, "cross_entropy_backward", grad, logits, targets, lse, np.zeros_like(logits))
    shift = rng.standard_normal(9).astype(np.float32) if bias else None
    compare(cupy, "linear_cross_entropy", x, weight, shift, targets, losses, lse, chunk_bytes=chunk_bytes)
    outs = [np.zeros_like(x), np.zeros_like(weight), np.zeros(9, np.float32)]
    arguments = (grad, x, weight, shift, targets, lse, *outs)
    compare(cupy, "linear_cross_entropy_backward", *arguments, chunk_bytes=chunk_bytes)


def test_wrong_numbers_are_named(cupy: Any) -> None:
    k = backend("cuda")
    logits, targets = _on_device(cupy, np.zeros((2, 3))), _on_device(cupy, np.array([0, 3]))
    losses = cupy.empty((2, 2), np.float64)
    with pytest.raises(IndexError, match="target 3 is out of range for 3 classes"):
        k.cross_entropy(logits, targets, losses[0], losses[1])


@pytest.mark.parametrize("rows", [3, 500])
def test_embedding(rows: int, cupy: Any, rng: Rng) -> None:
    weight, indices = rng.standard_normal((rows, 4)), rng.integers(0, rows, (20, 10))
    compare(cupy, "embedding", weight, indices, np.zeros((20, 10, 4)))
    grad = rng.standard_normal((200, 4))
    compare(cupy, "embedding_backward", grad, indices.reshape(-1), np.zeros_like(weight))
    compare(cupy, "embedding_backward", grad, indices.reshape(-1), np.ones_like(weight), padding_idx=1)
    compare(cupy, "gather", weight, indices - rows, np.zeros((20, 10, 4)))
    compare(cupy, "gather_backward", grad.reshape(20, 10, 4), indices - rows, np.zeros_like(weight))
    mask = rng.random(rows) > 0.5
    compare(cupy, "gather", weight, mask, np.zeros((int(mask.sum()), 4)))
    compare(cupy, "gather_backward", weight[mask], mask, np.ones_like(weight))


MASKS: dict[str, Callable[[Rng], Any]] = {
    "none": lambda rng: None,
    "bool": lambda rng: rng.random((2, 1, 7, 6)) > 0.3,
    "unseen": lambda rng: np.arange(7)[:, None] > np.zeros(6),
    "float": lambda rng: rng.standard_normal((7, 6)).astype(np.float32),
}


@pytest.mark.parametrize("budget", [64, 1 << 20])
@pytest.mark.parametrize("heads", [2, 4])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_attention(
    mask: str, causal: bool, heads: int, budget: int, cupy: Any, rng: Rng, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.import_module("stowgrad.kernels.cupy_.attention"), "_SCORE_BYTES", budget)
    q, k, v = (
        rng.standard_normal(shape).astype(np.float32).transpose(0, 2, 1, 3)
        for shape in ((2, 7, heads, 5), (2, 6, 2, 5), (2, 6, 2, 3))
    )
    keywords = dict(scale=0.4, causal=causal, mask=MASKS[mask](rng))
    out, lse = np.zeros((2, heads, 7, 3), np.float32), np.zeros((2, heads, 7), np.float32)
    compare(cupy, "attention", q, k, v, out, lse, **keywords)
    grad = rng.standard_normal(out.shape).astype(np.float32)
    grads = [np.zeros(x.shape, np.float32) for x in (q, k, v)]
    compare(cupy, "attention_backward", grad, q, k, v, out, lse, *grads, **keywords)


@pytest.mark.parametrize("decoupled", [True, False])
@pytest.mark.parametrize("amsgrad", [True, False])
@pytest.mark.parametrize("maximize", [True, False])
def test_adamw(maximize: bool, amsgrad: bool, decoupled: bool, cupy: Any, rng: Rng) -> None:
    param, grad, exp_avg = rng.standard_normal((3, 20))
    squares = [np.abs(rng.standard_normal(20)) for _ in range(1 + amsgrad)]
    keywords = dict(lr=0.01, beta1=0.9, beta2=0.99, eps=1e-8, weight_decay=0.1, step=3)
    state = (param, grad, exp_avg, *squares)
    compare(cupy, "adamw_step", *state, **keywords, maximize=maximize, decoupled=decoupled)


@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_sgd(first: bool, nesterov: bool, cupy: Any, rng: Rng) -> None:
    param, grad, buffer = rng.standard_normal((3, 20))
    compare(cupy, "sgd_step", param.copy(), grad, None, lr=0.1, weight_decay=0.01)
    keywords = dict(lr=0.1, momentum=0.9, dampening=0.1, nesterov=nesterov, weight_decay=0.01, first=first)
    compare(cupy, "sgd_step", param, grad, buffer, **keywords, maximize=True)


def test_a_kernel_may_write_into_its_input(cupy: Any, rng: Rng) -> None:
    x, grad = rng.standard_normal((2, 4, 6)).astype(np.float32)
    for name in ("gelu", "softmax", "log_softmax", "silu", "negative"):
        y = x.copy()
        compare(cupy, name, y, y)
    mean, rstd = rng.random((2, 4)).astype(np.float32)
    g, w = grad.copy(), np.zeros(6, np.float32)
    compare(cupy, "layer_norm_backward", g, x, None, mean, rstd, g, w, np.zeros(6, np.float32))


# -- random numbers ----------------------------------------------------------------------------------------------------


def draw(cupy: Any, name: str, size: int, dtype: Any = np.float32, **keywords: Any) -> Any:
    out = cupy.empty((size,), np.dtype(dtype))
    getattr(backend("cuda"), name)(out, **({"key": 7, "counter": 3} | keywords))
    return out.get()


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [  # Random123's known answers for philox4x32-10
        (0, 0, (0x6627E8D5, 0xE169C58D)),
        ((1 << 128) - 1, (1 << 64) - 1, (0x408F276D, 0x41C83B0E)),
        (0x0370734413198A2E85A308D3243F6A88, 0x299F31D0A4093822, (0xD16CFE09, 0x94FDCCEB)),
    ],
)
def test_the_generator_is_philox(counter: int, key: int, words: tuple[int, int], cupy: Any) -> None:
    (found,) = draw(cupy, "uniform", 1, np.float64, key=key, counter=counter)
    assert found == ((words[0] << 32 | words[1]) >> 11) / 2**53


def test_draws_repeat_and_begin_alike(cupy: Any) -> None:
    for name in ("uniform", "normal"):
        whole = draw(cupy, name, 1000)
        np.testing.assert_array_equal(whole, draw(cupy, name, 1000))
        np.testing.assert_array_equal(whole[:10], draw(cupy, name, 10))
        assert (whole != draw(cupy, name, 1000, key=8)).mean() > 0.99
        assert (whole != draw(cupy, name, 1000, counter=1003)).mean() > 0.99


def test_draws_have_the_right_distribution(cupy: Any) -> None:
    values = draw(cupy, "uniform", 20000, low=-1.0, high=3.0)
    assert values.min() >= -1
    assert values.max() < 3
    assert values.mean() == pytest.approx(1, abs=0.05)
    for dtype in FLOATS:
        values = draw(cupy, "normal", 20000, dtype, mean=2.0, std=0.5)
        assert values.mean() == pytest.approx(2, abs=0.02)
        assert values.std() == pytest.approx(0.5, abs=0.02)
        assert np.isfinite(values).all()
    values = draw(cupy, "integers", 20000, np.int64, low=-3, high=4)
    assert np.bincount(values + 3).tolist() == pytest.approx([20000 / 7] * 7, rel=0.1)
    assert sorted(draw(cupy, "permutation", 50, np.int64)) == list(range(50))


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_dropout(p: float, cupy: Any) -> None:
    k, size = backend("cuda"), 20003
    x = _on_device(cupy, np.full(size, 2, np.float32))
    out, bits, again = cupy.empty((size,), x.dtype), *(cupy.empty((2501,), np.dtype(np.uint8)) for _ in range(2))
    k.dropout(x, out, bits, p=p, key=5, counter=9)
    kept = np.unpackbits(bits.get(), count=size).astype(bool)
    assert kept.mean() == pytest.approx(1 - p, abs=0.02)
    np.testing.assert_allclose(out.get(), np.where(kept, 2 / (1 - p) if p < 1 else 0, 0), rtol=1e-6)
    k.dropout_mask(again, size=size, p=p, key=5, counter=9)
    np.testing.assert_array_equal(again.get(), bits.get())
    k.dropout_backward(x, bits, out, p=p)
    np.testing.assert_allclose(out.get(), np.where(kept, 2 / (1 - p) if p < 1 else 0, 0), rtol=1e-6)
    k.dropout(x, x, again, p=p, key=5, counter=9)
    np.testing.assert_array_equal(x.get(), out.get())
