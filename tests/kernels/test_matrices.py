"""Kernels on matrices against NumPy's and SciPy's functions: any strides, batches, sizes on both sides of blocks."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import scipy.linalg

from stowgrad.kernels import executor
from stowgrad.kernels import numpy_ as k
from stowgrad.kernels.errors import LinAlgError

SIZES = [(1, 1), (3, 3), (33, 33), (70, 41), (41, 70), (100, 100)]
DTYPES = ["float64", "complex128"]


def drawn(*sizes: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=sizes)
    return x + 1j * rng.normal(size=sizes) if dtype == "complex128" else x


def filled(*sizes: int, dtype: str = "float64") -> np.ndarray:
    """An out whose every element must be written."""
    return np.full(sizes, np.nan, dtype)


CONTRACTIONS = [
    "ij,jk->ik",
    "ij,jk->ki",
    "bij,bjk->bik",
    "bij,bjk->ikb",
    "i,j->ji",
    "ab,ab->",
    "ab,ab->ba",
    "abc,dcb->ad",
]


@pytest.mark.parametrize("equation", CONTRACTIONS)
@pytest.mark.parametrize("turned", [False, True])
def test_contractions_are_einsums(equation: str, turned: bool) -> None:
    left, right, result = equation.replace("->", ",").split(",")
    sizes = dict(zip("abcdijk", (2, 3, 4, 5, 6, 7, 8), strict=True))
    x, y = (drawn(*[sizes[c] for c in part], seed=n) for n, part in enumerate((left, right)))
    if turned:
        x, y = (array.T.copy().T for array in (x, y))
    out = filled(*[sizes[c] for c in result])
    labels = {"left": tuple(map(ord, left)), "right": tuple(map(ord, right)), "result": tuple(map(ord, result))}
    k.contract(x, y, out, **labels)
    np.testing.assert_allclose(out, np.einsum(equation, x, y), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("batch", [(2,), (9,), (2, 5), (1, 9)])
@pytest.mark.parametrize("size", [8, 210, 260])
@pytest.mark.parametrize("turned", [False, True])
def test_batches_of_products_are_numpys(batch: tuple[int, ...], size: int, turned: bool) -> None:
    x, y = drawn(*batch, size, size), drawn(*batch, size, size, seed=1)
    if turned:
        x, y = x.swapaxes(-1, -2), y.swapaxes(0, -3) if len(batch) > 1 and batch[0] == 1 else y
    out = filled(*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), size, size)
    k.matmul(x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rows", [1, 2, 31, 64, 65, 128, 129])
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_layers_on_few_rows(rows: int, strided: bool, bias: bool) -> None:
    x, weight, shift = (drawn(*sizes).astype("float32") for sizes in ((rows, 2 * 700), (900, 700), (900,)))
    x = x[:, ::2] if strided else x[:, :700]
    expected = x.astype("float64") @ weight.astype("float64").T
    out = filled(rows, 900, dtype="float32")
    k.matmul(x, weight.T, out)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    out = filled(rows, 900, dtype="float32")
    k.linear(x, weight, shift if bias else None, out)
    np.testing.assert_allclose(out, expected + shift * bias, rtol=1e-4, atol=1e-4)


def test_gradients_of_a_layer_on_one_thread(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(functools.partial(executor.set_num_threads, executor.get_num_threads()))
    executor.set_num_threads(1)
    grad, x, weight = (drawn(*sizes, seed=n) for n, sizes in enumerate(((300, 200), (300, 150), (200, 150))))
    outs = [filled(*sizes) for sizes in ((300, 150), (200, 150), (200,))]
    k.linear_backward(grad, x, weight, *outs)
    for out, expected in zip(outs, (grad @ weight, grad.T @ x, grad.sum(0)), strict=True):
        np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 1), (2.0, 1), (1, 0.5), (3, 0), (1, 0)])
def test_scale_add(alpha: float, beta: float) -> None:
    x, out = drawn(4), drawn(3, 4, seed=1)
    expected = alpha * out + beta * x
    k.scale_add(np.full(4, np.nan) if beta == 0 else x, out, alpha=alpha, beta=beta)
    np.testing.assert_allclose(out, expected)


def test_what_is_left_out_of_triangles_is_zero() -> None:
    x = np.full((2, 3, 4), np.nan)
    out = filled(2, 3, 4)
    k.triangles(x, out, below=0, diagonal=0, above=0, fill=None)
    assert not out.any()


@pytest.mark.parametrize("sizes", [(5, 3), (3, 5), (2, 4, 4), (2, 0, 3), (700, 800)])
def test_triangles(sizes: tuple[int, ...]) -> None:
    x, out = drawn(*sizes), filled(*sizes)
    k.triangles(x, out, below=-1, diagonal=2, above=0, fill=None)
    np.testing.assert_array_equal(out, -np.tril(x, -1) + 2 * (np.tril(x) - np.tril(x, -1)))
    k.triangles(x, out, below=0, diagonal=2, above=1, fill=7)
    np.testing.assert_array_equal(out, np.triu(x, 1) + 7 * np.eye(*sizes[-2:]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 5, 32, 33, 100])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_substitution(dtype: str, size: int, upper: bool, left: bool, unit: bool) -> None:
    a = drawn(size, size, dtype=dtype) / size + 2 * np.eye(size)
    b = drawn(size, 3, dtype=dtype) if left else drawn(3, size, dtype=dtype)
    out = filled(*b.shape, dtype=dtype)
    k.solve_triangular(a, b, out, upper=upper, left=left, unit=unit)
    half = np.triu(a) if upper else np.tril(a)
    if unit:
        np.fill_diagonal(half, 1)
    np.testing.assert_allclose(half @ out if left else out @ half, b, rtol=1e-9, atol=1e-9)


def test_substitution_of_a_zero_gives_infinity() -> None:
    out = filled(2, 1)
    k.solve_triangular(np.diag([1.0, 0.0]), np.ones((2, 1)), out, upper=True, left=True, unit=False)
    assert out[:, 0].tolist()[1] == math.inf


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_lu_is_lapacks(dtype: str, sizes: tuple[int, int]) -> None:
    x = np.stack([drawn(*sizes, dtype=dtype, seed=seed) for seed in range(2)])
    lu, pivots, info = np.empty_like(x), np.empty((2, min(sizes)), np.int32), np.empty(2, np.int32)
    k.lu_factor(x, lu, pivots, info)
    assert info.tolist() == [0, 0]
    for matrix, found, swaps in zip(x, lu, pivots, strict=True):
        expected, rows = scipy.linalg.lapack.get_lapack_funcs(("getrf",), (matrix,))[0](matrix)[:2]
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_array_equal(swaps - 1, rows)
    p = np.empty((2, sizes[0], sizes[0]), dtype)
    k.lu_permutation(pivots, p)
    columns = min(sizes)
    left = np.tril(lu[..., :columns], -1) + np.eye(sizes[0], columns)
    np.testing.assert_allclose(p @ left @ np.triu(lu[..., :columns, :]), x, rtol=1e-9, atol=1e-9)


def test_lu_tells_the_first_zero() -> None:
    x = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]])
    lu, pivots, info = np.empty_like(x), np.empty(3, np.int32), np.empty((), np.int32)
    k.lu_factor(x, lu, pivots, info)
    assert int(info) == 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
def test_lu_solves(dtype: str, left: bool, adjoint: bool) -> None:
    x = drawn(2, 1, 40, 40, dtype=dtype)
    lu, pivots, info = np.empty_like(x), np.empty((2, 1, 40), np.int32), np.empty((2, 1), np.int32)
    k.lu_factor(x, lu, pivots, info)
    b = drawn(3, 40, 2, dtype=dtype) if left else drawn(3, 2, 40, dtype=dtype)
    out = filled(2, *b.shape, dtype=dtype)
    k.lu_solve(lu, pivots, b, out, left=left, adjoint=adjoint)
    a = x.swapaxes(-1, -2).conj() if adjoint else x
    np.testing.assert_allclose(a @ out if left else out @ a, np.broadcast_to(b, out.shape), rtol=1e-8, atol=1e-8)


# -- LAPACK ------------------------------------------------------------------------------------------------------------


def test_an_inverse_that_is_not_there_is_nan_and_counted() -> None:
    x = np.stack([np.eye(2), np.array([[1.0, 2.0], [2.0, 4.0]])])
    out, info = np.empty_like(x), np.empty(2, np.int32)
    k.inv(x, out, info)
    assert info.tolist() == [0, 2]
    np.testing.assert_array_equal(out[0], np.eye(2))
    assert np.isnan(out[1]).all()


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_reads_one_half_and_counts_minors(upper: bool) -> None:
    good = np.array([[4.0, 9.0], [2.0, 5.0]] if not upper else [[4.0, 2.0], [9.0, 5.0]])
    bad = np.diag([1.0, -1.0])
    out, info = np.empty((2, 2, 2)), np.empty(2, np.int32)
    k.cholesky(np.stack([good, bad]), out, info, upper=upper)
    expected = np.array([[2.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(out[0], expected.T if upper else expected)
    assert info.tolist() == [0, 2]


@pytest.mark.parametrize("scale", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exponential_is_scipys(scale: float, dtype: str) -> None:
    x = drawn(3, 4, 4, dtype=dtype) * scale / 4
    out = np.empty_like(x)
    k.matrix_exp(x, out)
    expected = scipy.linalg.expm(x)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(4, 4), (2, 6, 3)])
def test_householder_vectors_make_q(dtype: str, sizes: tuple[int, ...]) -> None:
    x = drawn(*sizes, dtype=dtype)
    factors, tau = np.empty_like(x), np.empty((*sizes[:-2], sizes[-1]), dtype)
    k.geqrf(x, factors, tau)
    q = filled(*sizes, dtype=dtype)
    k.householder_product(factors, tau, q)
    np.testing.assert_allclose(q @ np.triu(factors)[..., : sizes[-1], :], x, rtol=1e-12, atol=1e-12)


def test_what_does_not_converge_raises_our_error() -> None:
    x, s = np.full((2, 2), np.nan), np.empty(2)
    with pytest.raises(LinAlgError, match=r"linalg\.svd.*non-finite"):
        k.svd(x, np.empty((2, 2)), s, np.empty((2, 2)), full=False)


# -- norms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, math.inf, -math.inf, -2])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (0, 2), (0, 1, 2), ()])
@pytest.mark.parametrize("sizes", [(3, 4, 5), (40, 90, 130)])
def test_vector_norms(order: float, axes: tuple[int, ...], sizes: tuple[int, int, int]) -> None:
    x = drawn(*sizes)
    flat = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *[n for d, n in enumerate(sizes) if d not in axes])
    size = np.abs(flat)
    if math.isinf(order):
        expected = size.max(0) if order > 0 else size.min(0)
    elif order == 0:
        expected = (size != 0).sum(0).astype(float)
    else:
        expected = (size**order).sum(0) ** (1 / order)
    out = filled(*[1 if d in axes else n for d, n in enumerate(sizes)])
    k.vector_norm(x, out, order=order, axes=axes)
    np.testing.assert_allclose(out.reshape(expected.shape), expected, rtol=1e-12)


def test_norms_of_float32_are_accurate() -> None:
    x = drawn(100_000, 3).astype(np.float32)
    out = np.empty((1, 3), np.float32)
    k.vector_norm(x, out, order=2, axes=(0,))
    np.testing.assert_allclose(out[0], np.linalg.norm(x.astype(np.float64), axis=0), rtol=3e-7)
