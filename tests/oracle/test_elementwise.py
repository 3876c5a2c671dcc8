"""Element-wise functions, operators and what writes in place beside PyTorch's, in every dtype and pairs of them."""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad.autograd import functions


def words(text: str) -> list[str]:
    return text.split()


UNARY = words(
    "neg positive abs sign sgn sqrt rsqrt square reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin"
    " acos atan sinh cosh asinh acosh atanh sinc deg2rad rad2deg floor ceil trunc fix round frac nan_to_num isnan"
    " isinf isfinite isposinf isneginf signbit logical_not bitwise_not erfc erfinv lgamma digamma i0 logit"
    " special.erfcx special.ndtr special.ndtri special.log_ndtr special.entr special.i0e special.i1 special.i1e"
    " special.expit special.gammaln special.psi special.modified_bessel_i0 special.modified_bessel_k0"
    " special.modified_bessel_k1"
    " special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.spherical_bessel_j0"
)
BINARY = words(
    "add sub mul div true_divide floor_divide remainder fmod pow float_power maximum minimum fmax fmin atan2"
    " hypot copysign logaddexp logaddexp2 xlogy heaviside ldexp nextafter eq ne lt le gt ge logical_and logical_or"
    " logical_xor bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift gcd lcm"
    " special.xlog1py special.zeta igamma igammac special.gammainc special.gammaincc isclose"
)
OPERATORS = words("add sub mul truediv floordiv mod pow and_ or_ xor lshift rshift eq ne lt le gt ge")
DTYPES = words("bool uint8 int32 int64 float16 bfloat16 float32 float64 complex64")
PAIRS = [
    *zip(DTYPES, DTYPES, strict=True),
    ("int64", "float32"), ("float32", "int64"), ("bool", "float32"), ("bool", "int64"), ("uint8", "int32"),
    ("float32", "float64"), ("float64", "float32"), ("float32", "complex64"), ("float16", "bfloat16"),
    ("float16", "float32"),
]  # fmt: skip
VALUES = np.array([0.25, 1.0, 2.0, 3.5, 0.0, -1.5, 6.0, 0.5])
OTHERS = np.roll(VALUES, 3)
TOLERANCES = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-10, "complex64": 3e-5}
# Where ours take more: half-precision numbers in special functions; bools by which PyTorch's can't shift an exponent.
MORE = {"special", "ldexp_ float32 bool", "ldexp_ float64 bool", "ldexp_ float16 bool"}
# What PyTorch has and ours refuse.
LESS = {"pow bool True"}


def found(lib: Any, name: str) -> Any:
    return operator.attrgetter(name)(lib)


def made(lib: Any, dtype: str, values: np.ndarray[Any, Any]) -> Any:
    if dtype == "complex64":
        return lib.tensor((values + 0.5j * values[::-1]).astype(dtype))
    if dtype == "bfloat16":
        return lib.tensor(values.astype("float32")).to(lib.bfloat16)
    return lib.tensor((np.abs(values) if dtype == "uint8" else values).astype(dtype))


def attempt(function: Callable[..., Any], *args: Any) -> Any:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Casting complex values to real", UserWarning)  # PyTorch's
            return function(*args)
    except Exception as error:  # noqa: BLE001  # whatever it is, the other library must raise the same
        return error


def problem(what: str, got: Any, wanted: Any) -> str:
    """How a result of ours differs, or nothing."""
    if isinstance(wanted, Exception) or isinstance(got, Exception):
        if isinstance(wanted, Exception) and isinstance(got, type(wanted)):
            return ""
        allowed = MORE if isinstance(wanted, NotImplementedError) else LESS
        known = what in allowed or what.split(".", maxsplit=1)[0] in allowed
        return "" if known else f"{what}: {got!r}, in PyTorch {wanted!r}"
    if not isinstance(wanted, torch.Tensor):
        return "" if got == wanted else f"{what}: {got}, in PyTorch {wanted}"
    dtype = str(wanted.dtype).removeprefix("torch.")
    if str(got.dtype) != dtype:
        return f"{what}: {got.dtype}, in PyTorch {dtype}"
    if dtype == "bfloat16":
        got, wanted = got.float(), wanted.float()
    tolerance = TOLERANCES.get(dtype, 0)
    a, b = got.numpy(), wanted.numpy()
    same = a.shape == b.shape and np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
    return "" if same else f"{what}: {a}, in PyTorch {b}"


def both(what: str, call: Callable[[Any], Any]) -> str:
    return problem(what, attempt(call, stowgrad), attempt(call, torch))


def check(problems: Iterator[str]) -> None:
    differing = [text for text in problems if text]
    assert differing == [], "\n".join(differing)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name: str):
    check(both(f"{name} {d}", lambda lib, d=d: found(lib, name)(made(lib, d, VALUES))) for d in DTYPES)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name: str):
    def call(lib: Any, x: str, y: str) -> Any:
        return found(lib, name)(made(lib, x, VALUES), made(lib, y, OTHERS))

    check(both(f"{name} {x} {y}", lambda lib, x=x, y=y: call(lib, x, y)) for x, y in PAIRS)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_a_tensor_and_a_number(name: str):
    def call(lib: Any, dtype: str, number: Any) -> Any:
        other = made(lib, "float64", np.array(1.5)) if number == "0-dim" else number
        return found(lib, name)(made(lib, dtype, VALUES), other)

    for dtype, number in itertools.product(DTYPES, (2, 1.5, True, -2, "0-dim")):
        wanted = attempt(call, torch, dtype, number)
        if isinstance(wanted, TypeError) and "must be Tensor" in str(wanted):
            continue  # ours take numbers for both operands of every function
        check(iter([problem(f"{name} {dtype} {number}", attempt(call, stowgrad, dtype, number), wanted)]))


@pytest.mark.parametrize("name", [name for name in UNARY if hasattr(torch.Tensor, f"{name}_")])
def test_methods_of_one_in_place(name: str):
    def call(lib: Any, dtype: str) -> Any:
        return getattr(made(lib, dtype, VALUES), f"{name}_")()

    check(both(f"{name}_ {d}", lambda lib, d=d: call(lib, d)) for d in DTYPES)


@pytest.mark.parametrize("name", functions.in_place.__all__)
def test_functions_in_place(name: str):
    def call(lib: Any, dtype: str) -> Any:
        x = made(lib, dtype, VALUES)
        assert getattr(lib, name)(x) is x
        return x

    assert callable(getattr(torch, name))
    if name.removesuffix("_") in UNARY:
        check(both(f"{name} {d}", lambda lib, d=d: call(lib, d)) for d in DTYPES)


@pytest.mark.parametrize("name", [name for name in BINARY if hasattr(torch.Tensor, f"{name}_")])
def test_methods_of_two_in_place(name: str):
    def call(lib: Any, x: str, y: str) -> Any:
        return getattr(made(lib, x, VALUES), f"{name}_")(made(lib, y, OTHERS))

    pairs = [*PAIRS, ("int64", "bool"), ("float32", "bool")]
    check(both(f"{name}_ {x} {y}", lambda lib, x=x, y=y: call(lib, x, y)) for x, y in pairs)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str):
    function = getattr(operator, name)
    for dtype in ("bool", "int64", "float64"):
        for number in (2, True) if dtype != "float64" else (2, 1.5):
            case = f"{name} {dtype} {number}"
            check(iter([both(case, lambda lib, d=dtype, n=number: function(made(lib, d, np.abs(VALUES) + 1), n))]))
            check(iter([both(case, lambda lib, d=dtype, n=number: function(n, made(lib, d, np.abs(VALUES) + 1)))]))
        check(iter([both(name, lambda lib, d=dtype: function(made(lib, d, VALUES), made(lib, d, np.abs(OTHERS) + 1)))]))


@pytest.mark.parametrize("name", [name for name in OPERATORS if name not in "eq ne lt le gt ge"])
def test_operators_in_place(name: str):
    function = getattr(operator, f"i{name.rstrip('_')}")
    for dtype in ("bool", "int64", "float64"):
        case = f"{name} {dtype}"
        check(iter([both(case, lambda lib, d=dtype: function(made(lib, d, VALUES), made(lib, d, np.abs(OTHERS) + 1)))]))
        check(iter([both(case, lambda lib, d=dtype: function(made(lib, d, VALUES), 2))]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_operators_of_one(dtype: str):
    for function in (operator.pos, operator.neg, operator.invert, operator.abs):
        check(iter([both(function.__name__, lambda lib, f=function: f(made(lib, dtype, VALUES)))]))


CALLS: dict[str, Callable[[Any], Any]] = {
    "div floor": lambda lib: lib.div(lib.tensor([-7, 7]), lib.tensor([2, -2]), rounding_mode="floor"),
    "div trunc": lambda lib: lib.div(lib.tensor([-7, 7]), lib.tensor([2, -2]), rounding_mode="trunc"),
    "div by zero": lambda lib: lib.div(lib.tensor([-7, 7]), 0, rounding_mode="trunc"),
    "div in a mode that there isn't": lambda lib: lib.div(lib.tensor([-7, 7]), 2, rounding_mode="up"),
    "floor_divide by zero": lambda lib: lib.tensor([1]) // 0,
    "remainder by zero": lambda lib: lib.tensor([1]) % lib.tensor([0]),
    "rsub": lambda lib: lib.rsub(lib.tensor([1.0, 2.0]), 3, alpha=2),
    "round to decimals": lambda lib: lib.round(lib.tensor([1.234, -5.675]), decimals=2),
    "round to hundreds": lambda lib: lib.round(lib.tensor([1234.0, -5675.0]), decimals=-2),
    "round integers to decimals": lambda lib: lib.round(lib.tensor([1234]), decimals=2),
    "clamp without bounds": lambda lib: lib.clamp(lib.ones(2)),
    "clamp with both kinds": lambda lib: lib.clamp(lib.ones(2), lib.zeros(2), 1.0),
    "clamp of integers by a float": lambda lib: lib.clamp(lib.tensor([0, 1, 2]), 0.5),
    "clamp_ of integers by a float": lambda lib: lib.tensor([0, 1, 2]).clamp_(0.5),
    "clamp with crossed bounds": lambda lib: lib.clamp(lib.tensor([0.0, 1.0, 2.0]), 1.5, 0.5),
    "clamp of NaN": lambda lib: lib.clamp(lib.tensor([math.nan, 1.0, 5.0]), max=lib.tensor(3.0)),
    "clip": lambda lib: lib.tensor([-1.0, 0.3, 2.0]).clip(0, 1),
    "nan_to_num": lambda lib: lib.nan_to_num(lib.tensor([math.nan, math.inf, -math.inf, 1.0])),
    "nan_to_num in numbers": lambda lib: lib.nan_to_num(lib.tensor([math.nan, math.inf, -math.inf]), 1, 2, 3),
    "nan_to_num crossed": lambda lib: lib.nan_to_num(lib.tensor([math.nan, math.inf]), math.inf, math.nan),
    "lerp of two dtypes": lambda lib: lib.lerp(lib.ones(2), lib.ones(2).double(), 0.5),
    "lerp of integers": lambda lib: lib.lerp(lib.tensor([1]), lib.tensor([3]), 0.5),
    "addcmul of integers": lambda lib: lib.addcmul(lib.tensor([1]), lib.tensor([3]), lib.tensor([2]), value=2),
    "addcdiv of integers": lambda lib: lib.addcdiv(lib.tensor([1]), lib.tensor([3]), lib.tensor([2])),
    "addcdiv": lambda lib: lib.ones(2).addcdiv_(lib.tensor([1.0, 2.0]), lib.tensor([4.0]), value=2),
    "integers to negative powers": lambda lib: lib.pow(lib.tensor([-1, 1, 2, -1]), lib.tensor([-3, -2, -1, -2])),
    "integers to a negative power": lambda lib: lib.tensor([1, 2]) ** -1,
    "mvlgamma": lambda lib: lib.mvlgamma(lib.tensor([2.5, 3.5]), 3),
    "mvlgamma of no dimension": lambda lib: lib.mvlgamma(lib.tensor([2.5]), 0),
    "polygamma": lambda lib: lib.tensor([2.5, -0.5]).polygamma(2),
    "polygamma of negative order": lambda lib: lib.polygamma(-1, lib.tensor([2.5])),
    "logit with eps": lambda lib: lib.logit(lib.tensor([-1.0, 0.2, 2.0]), eps=0.1),
    "frexp": lambda lib: lib.frexp(lib.tensor([6.0, -0.25, 0.0])).exponent,
    "isclose with NaN": lambda lib: lib.isclose(lib.tensor([math.nan]), lib.tensor([math.nan]), equal_nan=True),
    "isclose exactly": lambda lib: lib.isclose(lib.tensor([1.0, math.inf]), lib.tensor([1.1, math.inf]), 0, 0),
    "isclose with a negative tolerance": lambda lib: lib.isclose(lib.ones(1), lib.ones(1), rtol=-1),
    "allclose": lambda lib: lib.allclose(lib.ones(3), lib.ones(3) + 1e-9),
    "equal": lambda lib: lib.equal(lib.tensor([1, 2]), lib.tensor([1.0, 2.0])),
    "equal of two shapes": lambda lib: lib.equal(lib.ones(2), lib.ones(2, 1)),
    "where with a number": lambda lib: lib.where(lib.tensor([True, False]), 1, 2.5),
    "where with a complex number": lambda lib: lib.where(lib.tensor([True, False]), 1j, 2),
    "where of a mask of numbers": lambda lib: lib.where(lib.tensor([1, 0]), 1.0, 2.0),
    "where as a method": lambda lib: lib.tensor([1.0, 2.0]).where(lib.tensor([True, False]), 0),
    "shifts beyond the width": lambda lib: lib.tensor([1, -1]) << 64,
    "fill": lambda lib: lib.fill(lib.tensor([1, 2]), 3),
    "float_power_ of float32": lambda lib: lib.ones(2).float_power_(2),
}


@pytest.mark.parametrize("case", CALLS)
def test_calls(case: str):
    check(iter([both(case, CALLS[case])]))


# -- gradients in narrow dtypes ----------------------------------------------------------------------------------------

SMOOTH = [name for name in UNARY if not name.startswith(("is", "logical", "bitwise", "positive", "signbit"))]
PAIRED = words(
    "add sub mul div remainder fmod pow maximum minimum fmax fmin atan2 hypot copysign logaddexp logaddexp2 xlogy ldexp"
    " nextafter special.xlog1py clamp clamp_min clamp_max"
)
FIRST = np.array([0.25, 0.75, 0.5, 0.9, 0.6, 0.3, 1.5, 2.5], "float32")
SECOND = np.array([0.5, 0.75, 0.25, 1.5, 2.5, 0.3, 0.2, 0.6], "float32")


def gradients(lib: Any, name: str, inputs: tuple[np.ndarray[Any, Any], ...], dtype: str) -> list[Any]:
    leaves = [lib.tensor(array).to(getattr(lib, dtype)).requires_grad_() for array in inputs]
    with np.errstate(all="ignore"):
        found(lib, name)(*leaves).sum().backward()
    return [leaf.grad for leaf in leaves]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("name", [*SMOOTH, *PAIRED])
def test_gradients_in_narrow_dtypes(name: str, dtype: str):
    inputs = (FIRST, SECOND) if name in PAIRED else (FIRST,)
    try:
        expected = gradients(torch, name, inputs, dtype)
    except RuntimeError as error:  # a NotImplementedError, too
        pytest.skip(f"not in PyTorch: {error}")
    for got, wanted in zip(gradients(stowgrad, name, inputs, dtype), expected, strict=True):
        assert (got is None) == (wanted is None)
        if wanted is not None:
            tolerance = 2 * TOLERANCES[dtype]
            assert str(got.dtype) == dtype
            a, b = got.float().numpy(), wanted.float().numpy(force=True)
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# -- the names of arguments --------------------------------------------------------------------------------------------

NAMED = {
    name: getattr(module, name)
    for module in (
        functions.comparison,
        functions.elementwise,
        functions.exponential,
        functions.extremes,
        functions.fused,
        functions.integer,
        functions.rounding,
        functions.special,
        functions.special_only,
        functions.trigonometric,
    )
    for name in module.__all__
}


@pytest.mark.parametrize("name", NAMED)
def test_arguments_have_pytorchs_names(name: str):
    theirs = getattr(torch, name, None) or getattr(torch.special, name, None)
    if theirs is None:
        assert name in ("betaln", "cbrt")
        return
    special: dict[str, tuple[Any, ...]] = {
        "clamp": (torch.ones(2), 0, 1),
        "clip": (torch.ones(2), 0, 1),
        "fill": (torch.ones(2), 2.0),
        "lerp": (torch.ones(2), torch.ones(2), 0.5),
        "masked_fill": (torch.ones(2), torch.ones(2) > 0, 1.0),
        "mvlgamma": (torch.ones(2) * 3, 2),
        "polygamma": (1, torch.ones(2)),
        "where": (torch.ones(2) > 0, torch.ones(2), torch.ones(2)),
    }
    given = inspect.signature(NAMED[name]).parameters
    needed = [parameter for parameter in given.values() if parameter.default is parameter.empty]
    ones = torch.ones(2, dtype=torch.int64 if name in functions.integer.__all__ else torch.float32)
    theirs(**dict(zip(given, special.get(name, (ones,) * len(needed)), strict=False)))
