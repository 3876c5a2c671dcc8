from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from stowgrad.kernels import backend
from stowgrad.kernels.numpy_ import composed, elementwise, special

from .. import fake_cupy
from .support import strided_like

Array = np.ndarray[Any, Any]
EDGES = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 0.3])


def times_log(x: Array, y: Array, log: Callable[[Array], Array]) -> Array:
    with np.errstate(all="ignore"):
        return np.where((x == 0) & ~np.isnan(y), 0.0, x * log(y))


UNARY: dict[str, tuple[Callable[..., Any], Callable[[Array], Array]]] = {
    "frac": (composed.frac, lambda x: x - np.trunc(x)),
    "round": (lambda x, out: composed.round(x, out, decimals=1), lambda x: np.rint(x * 10) / 10),
    "round to tens": (lambda x, out: composed.round(x, out, decimals=-1), lambda x: np.rint(x / 10) * 10),
    "sinc": (composed.sinc, np.sinc),
    "sign": (elementwise.sign, lambda x: np.where(np.isnan(x), 0, np.sign(x))),
    "nan_to_num": (
        lambda x, out: elementwise.nan_to_num(x, out, nan=np.inf, posinf=1.0, neginf=np.nan),
        lambda x: np.nan_to_num(x, nan=np.inf, posinf=1.0, neginf=np.nan),
    ),
    "logit": (special.logit, lambda x: np.log(x / (1 - x))),
}
BINARY: dict[str, tuple[Callable[..., Any], Callable[[Array, Array], Array]]] = {
    "heaviside": (composed.heaviside, lambda x, y: np.where(np.isnan(x), 0, np.heaviside(x, y))),
    "trunc_divide": (composed.trunc_divide, lambda x, y: np.trunc(x / y)),
    "xlogy": (composed.xlogy, lambda x, y: times_log(x, y, np.log)),
    "xlog1py": (composed.xlog1py, lambda x, y: times_log(x, y, np.log1p)),
}
TERNARY: dict[str, tuple[Callable[..., Any], Callable[[Array, Array, Array], Array]]] = {
    "lerp": (composed.lerp, lambda x, y, z: x + z * (y - x)),
    "addcmul": (lambda *args: composed.addcmul(*args, value=0.5), lambda x, y, z: x + 0.5 * y * z),
    "addcdiv": (lambda *args: composed.addcdiv(*args, value=0.5), lambda x, y, z: x + 0.5 * y / z),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name: str, rng: np.random.Generator) -> None:
    kernel, reference = UNARY[name]
    for x in (EDGES, rng.standard_normal((300, 1001)), np.empty((0, 3))):
        with np.errstate(all="ignore"):
            expected = reference(x)
            for variant in strided_like(x):
                out = np.empty(x.shape)
                kernel(variant, out)
                np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-15)
            out = x.copy()
            kernel(out, out)
            np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", [((8, 1), (8,)), ((300, 1001), (1001,)), ((600, 1), (1, 999))])
def test_functions_of_two_that_broadcast(name: str, shapes: tuple[Any, Any], rng: np.random.Generator) -> None:
    kernel, reference = BINARY[name]
    x, y = (np.resize(EDGES, shape) if 8 in shape else rng.standard_normal(shape) for shape in shapes)
    with np.errstate(all="ignore"):
        expected = reference(x, y)
        out = np.empty(expected.shape)
        kernel(x, y, out)
        np.testing.assert_allclose(out, expected, rtol=1e-13)
        out = np.broadcast_to(x, expected.shape).copy()
        kernel(out, y, out)
        np.testing.assert_allclose(out, expected, rtol=1e-13)
        kernel(x, 0.3, out)
        np.testing.assert_allclose(out, np.broadcast_to(reference(x, np.asarray(0.3)), out.shape), rtol=1e-13)


@pytest.mark.parametrize("name", TERNARY)
def test_functions_of_three_that_broadcast(name: str, rng: np.random.Generator) -> None:
    kernel, reference = TERNARY[name]
    x, y, z = (rng.random(shape) + 0.1 for shape in ((300, 1), (1001,), (300, 1001)))
    out = np.empty((300, 1001))
    kernel(x, y, z, out)
    np.testing.assert_allclose(out, reference(x, y, z), rtol=1e-13)
    kernel(z, y, z, out)
    np.testing.assert_allclose(out, reference(z, y, z), rtol=1e-13)


def test_both_ends_of_lerp_are_exact() -> None:
    x, y, out = np.array([0.1, 1e20]), np.array([0.7, 1.0]), np.empty(2)
    for weight in (1.0, np.ones(2)):
        composed.lerp(x, y, weight, out)
        np.testing.assert_array_equal(out, y)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_whole_numbers(dtype: str) -> None:
    x, y = np.array([7, 5, 1, 2, 0], dtype), np.array([2, 3, 1, 1, 4], dtype)
    out = np.empty(5, dtype)
    composed.trunc_divide(x, y, out)
    assert out.tolist() == [3, 1, 1, 2, 0]
    composed.integer_power(x, y, out)
    assert out.tolist() == [49, 125, 1, 2, 0]


def test_negative_whole_numbers() -> None:
    out = np.empty(5, "int64")
    composed.trunc_divide(np.array([-7, 7, -6, 6, 0]), np.array([2, -2, 2, -4, -3]), out)
    assert out.tolist() == [-3, -3, -3, -1, 0]
    composed.integer_power(np.array([-1, -1, 1, 2, -2]), np.array([-3, -2, -1, -1, 3]), out)
    assert out.tolist() == [-1, 1, 1, 0, -8]


def test_mantissas_and_exponents(rng: np.random.Generator) -> None:
    x = rng.standard_normal(300_001)
    mantissa, exponent = np.empty_like(x), np.empty(x.shape, "int32")
    composed.frexp(x, mantissa, exponent)
    np.testing.assert_array_equal(np.ldexp(mantissa, exponent), x)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_special_functions_of_narrow_numbers(dtype: str) -> None:
    x = np.linspace(0.5, 3, 9).astype(dtype)
    out = np.empty_like(x)
    special.polygamma(x, out, n=1)
    assert out[0] == pytest.approx(math.pi**2 / 2, rel=2e-3)
    special.mvlgamma(x, out, p=1)
    assert out[2] == pytest.approx(math.lgamma(float(x[2])), rel=5e-3)


@pytest.fixture(scope="module")
def cupy_() -> Iterator[ModuleType]:
    with fake_cupy.installed():
        yield backend("cuda")


def on_device(array: Array) -> Any:
    import cupy

    made = cupy.empty(array.shape, array.dtype)
    made.set(np.ascontiguousarray(array))
    return made


def test_whole_numbers_on_cupy(cupy_: ModuleType) -> None:
    x, y = np.array([-7, 7, -1, -1, 3]), np.array([2, -2, -3, -2, 4])
    for name in ("trunc_divide", "integer_power", "heaviside"):
        expected, out = np.empty(5, "int64"), on_device(np.empty(5, "int64"))
        getattr(composed, name)(x, y, expected)
        getattr(cupy_, name)(on_device(x), on_device(y), out)
        np.testing.assert_array_equal(out.get(), expected)


@pytest.mark.parametrize("name", ["frac", "sinc", "sign", "nan_to_num", "logit", "round", "mvlgamma", "polygamma"])
def test_functions_of_one_on_cupy(name: str, cupy_: ModuleType) -> None:
    keywords: dict[str, dict[str, Any]] = {
        "nan_to_num": {"nan": 1.0, "posinf": 2.0, "neginf": 3.0},
        "round": {"decimals": 1},
        "mvlgamma": {"p": 3},
        "polygamma": {"n": 2},
    }
    x = np.array([0.3, 1.5, 4.0, 0.7]) if name in ("mvlgamma", "polygamma") else EDGES
    expected, out = np.empty(x.shape), on_device(np.empty(x.shape))
    module = next(m for m in (composed, special, elementwise) if hasattr(m, name))
    with np.errstate(all="ignore"):
        getattr(module, name)(x, expected, **keywords.get(name, {}))
        getattr(cupy_, name)(on_device(x), out, **keywords.get(name, {}))
    np.testing.assert_allclose(out.get(), expected, rtol=1e-12, atol=1e-15)
