"""Every function and method beside PyTorch's: value, dtype, gradient, gradient of the gradient, kind of error."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad.autograd import conversions, methods

from . import op_cases, opinfo_operators
from .op_cases import Case

# More of them lie in files of their own, one a family.
CASES: list[Case] = op_cases.CASES + [
    case
    for file in sorted(Path(__file__).parent.glob("cases_*.py"))
    for case in importlib.import_module(f"{__package__}.{file.stem}").CASES
]
BY_NAME: dict[str, list[Case]] = {}
for _case in CASES:
    BY_NAME.setdefault(_case.covers, []).append(_case)

# Relative to the largest value in an array. PyTorch's vector functions are exact to about a unit in the last place,
# a chain of two or three of them and a sum of some terms to a few.
TOLERANCES = {"float64": 1e-13, "float32": 3e-6}


def host(tensor: Any) -> np.ndarray[Any, Any]:
    return np.asarray(tensor.detach().numpy(force=True))  # PyTorch's zeros without memory, too


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def same(got: Any, expected: Any, what: str, tolerance: float = 0.0) -> None:
    """Fail unless two tensors have one shape and dtype and, within a tolerance, the same elements."""
    assert isinstance(got, stowgrad.Tensor), what
    assert (name_of(got.dtype), tuple(got.shape)) == (name_of(expected.dtype), tuple(expected.shape)), what
    a, e = host(got), host(expected)
    scale = np.max(np.abs(e), initial=1.0, where=np.isfinite(e)) if e.dtype.kind == "f" else 0.0
    np.testing.assert_allclose(a, e, rtol=0, atol=tolerance * scale, err_msg=what)


def attempt(lib: Any, case: Case, dtype: str, layout: str, wants_grad: bool) -> tuple[Any, Any]:
    """Leaves and results of a case; in place of the results the exception, if there is one."""
    leaves, given = [], []
    for array in case.inputs:
        number = array.dtype.kind == "f"
        value = array.astype(dtype) if number else array
        turned = layout == "transposed" and number and value.ndim > 1
        leaf = lib.tensor(value.T.copy("C") if turned else value)
        if wants_grad and number and dtype.startswith("float"):
            leaf.requires_grad_()
            leaves.append(leaf)
        given.append(leaf.permute(*reversed(range(leaf.ndim))) if turned else leaf)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch warns of .T on other than matrices
            results = case.function(lib, *given)
    except Exception as error:  # noqa: BLE001  # whatever it is, the other library must raise the same
        return leaves, error
    return leaves, tuple(results) if isinstance(results, tuple | list) else (results,)


def both(case: Case, dtype: str, layout: str = "contiguous", wants_grad: bool = False) -> Any:
    """Leaves and results in stowgrad and in PyTorch, or None if both refuse in the same way."""
    ours, results = attempt(stowgrad, case, dtype, layout, wants_grad)
    theirs, expected = attempt(torch, case, dtype, layout, wants_grad)
    if isinstance(expected, Exception) or isinstance(results, Exception):
        assert isinstance(results, type(expected)), f"stowgrad: {results!r}; PyTorch: {expected!r}"
        return None
    assert len(results) == len(expected)
    return ours, results, theirs, expected


def gradients(lib: Any, outputs: Any, inputs: Any, seed: int, create_graph: bool) -> list[Any]:
    """Gradients of those outputs that require grad, along a direction that is the same in both libraries."""
    live, along = [], []
    for number, y in enumerate(outputs):
        if y is not None and y.requires_grad:
            direction = np.random.default_rng((seed, number)).standard_normal(tuple(y.shape))
            live.append(y)
            along.append(lib.tensor(direction.astype(name_of(y.dtype))))
    if not live:
        return [None] * len(inputs)
    with np.errstate(all="ignore"):  # gradients at poles are infinite in both
        return list(lib.autograd.grad(live, inputs, along, create_graph=create_graph, allow_unused=True))


def compare_gradients(ours: Any, theirs: Any, what: str, tolerance: float) -> None:
    for number, (got, expected) in enumerate(zip(ours, theirs, strict=True)):
        where = f"{what} of input {number}"
        if got is None or expected is None:  # None stands for zeros, and either may find out that they are
            other = got if expected is None else expected
            assert other is None or not host(other).any(), where
        else:
            same(got, expected, where, tolerance)


def check_values(case: Case, dtype: str) -> None:
    made = both(case, dtype) if dtype in case.dtypes else None
    if made is not None:
        for number, (got, expected) in enumerate(zip(made[1], made[3], strict=True)):
            same(got, expected, f"result {number}", TOLERANCES.get(name_of(expected.dtype), 0.0))


def check_float32_gradients(case: Case) -> None:
    made = both(case, "float32", wants_grad=True)
    if made is not None:
        ours, results, theirs, expected = made
        got = gradients(stowgrad, results, ours, 1, create_graph=False)
        wanted = gradients(torch, expected, theirs, 1, create_graph=False)
        compare_gradients(got, wanted, "gradient", 10 * TOLERANCES["float32"])


def check_gradients(case: Case, layout: str) -> None:
    made = both(case, "float64", layout, wants_grad=True)
    if made is None:
        return
    ours, results, theirs, expected = made
    for got, wanted in zip(results, expected, strict=True):
        assert (got.requires_grad, got.is_leaf) == (wanted.requires_grad, wanted.is_leaf)
        same(got, wanted, "result", TOLERANCES["float64"])
    first = gradients(stowgrad, results, ours, 1, create_graph=True)
    first_expected = gradients(torch, expected, theirs, 1, create_graph=True)
    compare_gradients(first, first_expected, "gradient", 10 * TOLERANCES["float64"])
    try:
        second_expected = gradients(torch, first_expected, theirs, 2, create_graph=False)
    except RuntimeError as error:
        if "is not implemented" in str(error):  # PyTorch has no second derivative of it
            return
        raise
    second = gradients(stowgrad, first, ours, 2, create_graph=False)
    compare_gradients(second, second_expected, "second gradient", 100 * TOLERANCES["float64"])


def run_all(name: str, check: Callable[..., None], *variants: str) -> None:
    """Run a check on all cases of one name, so that one failure doesn't hide the others."""
    problems = []
    for case in BY_NAME[name]:
        for variant in variants:
            try:
                check(case, *variant.split())
            except Exception as error:  # noqa: BLE001  # also what the engine raises where PyTorch's doesn't
                problems.append(f"  {name}, {case.label} ({variant}): {type(error).__name__}: {error}")
    if problems:
        pytest.fail(f"{len(problems)} cases differ from PyTorch\n" + "\n".join(problems), pytrace=False)


@pytest.mark.parametrize("name", BY_NAME)
def test_values_and_dtypes(name: str):
    run_all(name, check_values, "float64", "float32", "int64", "bool")


@pytest.mark.parametrize("name", BY_NAME)
def test_gradients_and_second_gradients(name: str):
    run_all(name, check_gradients, "contiguous", "transposed")


@pytest.mark.parametrize("name", BY_NAME)
def test_gradients_of_float32(name: str):
    run_all(name, check_float32_gradients, "")


# -- the table has everything ------------------------------------------------------------------------------------------

_OPERATORS = {  # the case that is about each
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__rsub__": "sub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__rtruediv__": "div", "__pow__": "pow", "__rpow__": "pow", "__matmul__": "matmul",
    "__neg__": "neg", "__abs__": "abs", "__eq__": "eq", "__ne__": "ne", "__lt__": "lt", "__le__": "le",
    "__gt__": "gt", "__ge__": "ge", "__floordiv__": "floor_divide", "__rfloordiv__": "floor_divide",
    "__mod__": "remainder", "__pos__": "positive", "__and__": "bitwise_and", "__or__": "bitwise_or",
    "__xor__": "bitwise_xor", "__lshift__": "bitwise_left_shift", "__rlshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift", "__rrshift__": "bitwise_right_shift",
}  # fmt: skip
# In test_tensors.py.
_ELSEWHERE = {
    *("__hash__", "__bool__", "__float__", "__int__", "__index__", "__format__", "is_complex"),
    "storage_offset",  # tests/autograd/test_inplace_views.py
}


def _public(owner: type) -> set[str]:
    """Its methods, those that write in place left out: they are in test_tensors.py."""
    found = {name for name, value in vars(owner).items() if inspect.isroutine(value) or isinstance(value, property)}
    kept = {name for name in found if not name.endswith("_") and not name.startswith("_")}
    return kept | {name for name in found if name.endswith("__") and not name.startswith("__i")}


@pytest.mark.parametrize(
    "owner", [*(getattr(methods, name) for name in methods.__all__), conversions.ConversionMethods]
)
def test_every_method_is_in_the_table(owner: type):
    covered = {case.covers.split()[0] for case in CASES} | opinfo_operators.covered_methods()
    assert {_OPERATORS.get(name, name) for name in _public(owner) - _ELSEWHERE} <= covered


def test_every_function_is_in_the_table():
    from stowgrad.autograd import functions

    covered = {case.covers.split()[0] for case in CASES} | opinfo_operators.covered_functions()
    offered = set(stowgrad.__all__) & set(functions.__all__) - set(functions.in_place.__all__)
    assert offered - _ELSEWHERE <= covered
    assert set(stowgrad.nn.functional.__all__) <= covered | opinfo_operators.covered_functions("nn.functional.")


@pytest.mark.parametrize("room", ["fft", "linalg", "special"])
def test_every_function_of_a_namespace_is_in_the_table(room: str):
    namespace = getattr(stowgrad, room)
    offered = {name for name in namespace.__all__ if inspect.isfunction(getattr(namespace, name))}
    covered = {case.covers.split()[0] for case in CASES}
    assert {f"{room}.{name}" for name in offered} <= covered | {
        f"{room}.{name}" for name in opinfo_operators.covered_functions(f"{room}.")
    }
