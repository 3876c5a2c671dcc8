"""Dtypes of results: all pairs of dtypes, as tensors with and without dimensions, and all kinds of Python numbers."""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad.autograd.dtypes import to_complex, to_real

USUAL = ["bool", "uint8", "int8", "int16", "int32", "int64"]
USUAL += ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
WIDE_UNSIGNED = ["uint16", "uint32", "uint64"]
NAMES = USUAL + WIDE_UNSIGNED
NUMBERS = (True, False, 2, -1, 2.5, 1.5 + 2j)
OPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda lib, x, y: x + y,
    "sub": lambda lib, x, y: x - y,
    "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / y,
    "floor_divide": lambda lib, x, y: x // y,
    "remainder": lambda lib, x, y: x % y,
    "pow": lambda lib, x, y: x**y,
    "lt": lambda lib, x, y: x < y,
    "eq": lambda lib, x, y: x == y,
    "and": lambda lib, x, y: x & y,
    "where": lambda lib, x, y: lib.where(lib.tensor([True, False]), x, y),
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "atan2": lambda lib, x, y: lib.atan2(x, y),
    "result_type": lambda lib, x, y: lib.result_type(x, y),
}
# There are no complex numbers of two halves here: they become complex64.
HALF_COMPLEX = "complex32"
TOLERANCE = {"float64": 1e-12, "float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "complex64": 1e-5}


def operand(lib: Any, name: str, ndim: int) -> Any:
    values = [3, 2] if ndim else 2
    return lib.tensor(values, dtype=lib.int64).to(getattr(lib, name))


def outcome(lib: Any, call: Callable[..., Any], *args: Any) -> tuple[str, Any]:
    """The dtype (or the class of the error) and the values of a result."""
    try:
        result = call(lib, *args)
    except Exception as error:  # noqa: BLE001  # whatever it is, the other library must raise the same
        return f"raises {type(error).__name__}", error
    if not hasattr(result, "dtype"):
        return str(result).removeprefix("torch."), None
    return str(result.dtype).removeprefix("torch."), result


def values(result: Any) -> Any:
    wide = "complex128" if "complex" in str(result.dtype) else "float64"
    lib = torch if isinstance(result, torch.Tensor) else stowgrad
    return np.asarray(result.to(getattr(lib, wide)).numpy())


def differences(call: Callable[..., Any], pairs: Iterator[tuple[str, Any, Any]]) -> list[str]:
    """What differs, by pairs of operands: made by functions of the library, or numbers."""
    found = []
    for label, first, second in pairs:
        operands = [[make(lib) if callable(make) else make for make in (first, second)] for lib in (stowgrad, torch)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            (mine, got), (theirs, expected) = (
                outcome(lib, call, *args) for lib, args in zip((stowgrad, torch), operands, strict=True)
            )
        if HALF_COMPLEX in theirs or ("Half" in str(expected) and "raises" in theirs and "Complex" in str(expected)):
            continue
        if mine.startswith("raises") and theirs.startswith("raises") and isinstance(got, type(expected)):
            continue
        if mine != theirs:
            found.append(f"{label}: {mine}, PyTorch {theirs} ({got if 'raises' in mine else expected})")
        elif not mine.startswith("raises") and got is not None:
            bound = max(TOLERANCE[name] for name in TOLERANCE if name in f"{mine} {label} float64")
            close = np.allclose(values(got), values(expected), rtol=bound, equal_nan=True)
            if not close:
                found.append(f"{label}: {values(got)}, PyTorch {values(expected)}")
    return found


def pairs_of_tensors(names: Any, ranks: Any) -> Iterator[tuple[str, Any, Any]]:
    for (x, y), (m, n) in itertools.product(itertools.product(names, names), ranks):
        yield (
            f"{x} ({m}-dim), {y} ({n}-dim)",
            lambda lib, x=x, m=m: operand(lib, x, m),
            lambda lib, y=y, n=n: operand(lib, y, n),
        )


def pairs_with_numbers(names: Any) -> Iterator[tuple[str, Any, Any]]:
    for x, number, n in itertools.product(names, NUMBERS, (1, 0)):
        make = lambda lib, x=x, n=n: operand(lib, x, n)  # noqa: E731
        yield f"{x} ({n}-dim), {number}", make, number
        yield f"{number}, {x} ({n}-dim)", number, make


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("ranks", [(1, 1), (1, 0), (0, 1), (0, 0)], ids=str)
def test_tensors(op: str, ranks: tuple[int, int]) -> None:
    assert differences(OPS[op], pairs_of_tensors(USUAL, [ranks])) == []


@pytest.mark.parametrize("op", [op for op in OPS if op not in ("maximum", "atan2")])
def test_numbers(op: str) -> None:
    assert differences(OPS[op], pairs_with_numbers(USUAL)) == []


@pytest.mark.parametrize("name", ["cat", "stack"])
def test_joined(name: str) -> None:
    assert differences(lambda lib, x, y: getattr(lib, name)([x, y]), pairs_of_tensors(USUAL, [(1, 1)])) == []


def _promoted(lib: Any, x: str, y: str) -> Any:
    return lib.promote_types(getattr(lib, x), getattr(lib, y))


def test_promote_types() -> None:
    names = [*NAMES, "float8_e4m3fn", "float8_e5m2"]
    for x, y in itertools.product(names, names):
        kinds = [outcome(lib, _promoted, x, y) for lib in (stowgrad, torch)]
        if {x, y} & set(WIDE_UNSIGNED) and "complex" in x + y:  # refused there, although results have such dtypes
            assert "complex" in kinds[0][0]
        else:
            assert kinds[0][0] == kinds[1][0], (x, y)


def test_can_cast() -> None:
    for x, y in itertools.product(NAMES, NAMES):
        mine, theirs = (lib.can_cast(getattr(lib, x), getattr(lib, y)) for lib in (stowgrad, torch))
        assert mine == theirs, (x, y)


IN_PLACE = {"add_": operator.iadd, "mul_": operator.imul, "div_": operator.itruediv, "pow_": operator.ipow}


@pytest.mark.parametrize("op", IN_PLACE)
def test_in_place(op: str) -> None:
    call = IN_PLACE[op]
    assert differences(lambda lib, x, y: call(x, y), pairs_of_tensors(USUAL, [(1, 1), (1, 0)])) == []


@pytest.mark.parametrize("op", IN_PLACE)
def test_in_place_with_numbers(op: str) -> None:
    call = IN_PLACE[op]
    pairs = (pair for pair in pairs_with_numbers(USUAL) if callable(pair[1]))
    assert differences(lambda lib, x, y: call(x, y), pairs) == []


def test_what_pytorchs_dtypes_know_of_themselves() -> None:
    for name in (*NAMES, "float8_e4m3fn", "float8_e5m2"):
        mine, theirs = getattr(stowgrad, name), getattr(torch, name)
        assert np.dtype(mine) is mine
        assert stowgrad.is_floating_point(mine) == theirs.is_floating_point
        assert stowgrad.is_complex(mine) == theirs.is_complex
        assert stowgrad.is_signed(mine) == theirs.is_signed
        assert mine.itemsize == theirs.itemsize
        assert to_real(mine).name == str(theirs.to_real()).removeprefix("torch.")
        found, expected = (
            outcome_of_complex(call, kind)
            for call, kind in ((to_complex, mine), (operator.methodcaller("to_complex"), theirs))
        )
        assert found == expected or expected == HALF_COMPLEX


def outcome_of_complex(call: Any, dtype: Any) -> str:
    try:
        return str(call(dtype)).removeprefix("torch.")
    except RuntimeError:
        return "refused"


@pytest.mark.parametrize("default", ["float64", "float16"])
def test_another_default_dtype(default: str) -> None:
    try:
        for lib in (stowgrad, torch):
            lib.set_default_dtype(getattr(lib, default))
        assert differences(OPS["mul"], pairs_with_numbers(USUAL)) == []
        assert differences(OPS["div"], pairs_of_tensors(USUAL, [(1, 1), (1, 0)])) == []
        for make in (lambda lib: lib.tensor([1.5]), lambda lib: lib.ones(2), lambda lib: lib.tensor(1j)):
            mine, theirs = (str(make(lib).dtype).removeprefix("torch.") for lib in (stowgrad, torch))
            assert mine == theirs or theirs == HALF_COMPLEX
    finally:
        for lib in (stowgrad, torch):
            lib.set_default_dtype(lib.float32)


LIMITS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2")


@pytest.mark.parametrize("name", LIMITS)
def test_finfo(name: str) -> None:
    mine, theirs = (lib.finfo(getattr(lib, name)) for lib in (stowgrad, torch))
    assert repr(mine) == repr(theirs)
    assert (mine.bits, mine.dtype) == (theirs.bits, theirs.dtype)
    for attribute in ("eps", "max", "min", "resolution", "smallest_normal", "tiny"):
        assert getattr(mine, attribute) == pytest.approx(getattr(theirs, attribute), rel=1e-15)


@pytest.mark.parametrize("name", ["uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"])
def test_iinfo(name: str) -> None:
    mine, theirs = (lib.iinfo(getattr(lib, name)) for lib in (stowgrad, torch))
    assert (mine.bits, mine.dtype, mine.min, mine.max) == (theirs.bits, theirs.dtype, theirs.min, theirs.max)
