"""What all element-wise functions share: ``out=`` and the meta device; and how little some keep for backward."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd.functions import (
    comparison,
    elementwise,
    exponential,
    extremes,
    fused,
    integer,
    rounding,
    special,
    special_only,
    trigonometric,
)

MODULES = (
    comparison, elementwise, exponential, extremes, fused, integer, rounding, special, special_only, trigonometric,
)  # fmt: skip
FUNCTIONS = {name: getattr(module, name) for module in MODULES for name in module.__all__}
SPECIAL: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "clamp": lambda lib: (lib.ones(2), 0, 1),
    "clip": lambda lib: (lib.ones(2), 0, 1),
    "fill": lambda lib: (lib.ones(2), 2.0),
    "lerp": lambda lib: (lib.ones(2), lib.zeros(2), 0.5),
    "masked_fill": lambda lib: (lib.ones(2), lib.tensor([True, False]), 1.0),
    "mvlgamma": lambda lib: (lib.ones(2) * 3, 2),
    "polygamma": lambda lib: (1, lib.ones(2)),
    "where": lambda lib: (lib.tensor([True, False]), lib.ones(2), lib.zeros(2)),
}
pytestmark = pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")


def parameters(name: str) -> list[str]:
    """The arguments that have to be given."""
    given = inspect.signature(FUNCTIONS[name]).parameters.values()
    return [p.name for p in given if p.default is p.empty]


def arguments(lib: Any, name: str) -> tuple[Any, ...]:
    if name in SPECIAL:
        return SPECIAL[name](lib)
    whole = name in integer.__all__
    return tuple(lib.ones(2).long() if whole else lib.ones(2) for _ in parameters(name))


def as_tuple(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


WITH_OUT = [name for name, function in FUNCTIONS.items() if "out" in inspect.signature(function).parameters]
WITH_RESULTS = [name for name in FUNCTIONS if name not in ("allclose", "equal")]


@pytest.mark.parametrize("name", WITH_OUT)
def test_results_are_written_into_out(name: str):
    expected = as_tuple(FUNCTIONS[name](*arguments(stowgrad, name)))
    targets = tuple(stowgrad.empty(result.shape, dtype=result.dtype) for result in expected)
    got = FUNCTIONS[name](*arguments(stowgrad, name), out=targets if len(targets) > 1 else targets[0])
    for result, target, wanted in zip(as_tuple(got), targets, expected, strict=True):
        assert result is target
        np.testing.assert_array_equal(result.numpy(), wanted.numpy())


@pytest.mark.parametrize("name", WITH_RESULTS)
def test_the_meta_device_knows_shapes_and_dtypes(name: str):
    expected = as_tuple(FUNCTIONS[name](*arguments(stowgrad, name)))
    given = [v.to("meta") if isinstance(v, stowgrad.Tensor) else v for v in arguments(stowgrad, name)]
    for got, wanted in zip(as_tuple(FUNCTIONS[name](*given)), expected, strict=True):
        assert (got.shape, got.dtype, str(got.device)) == (wanted.shape, wanted.dtype, "meta")


# -- what is kept ------------------------------------------------------------------------------------------------------

KEPT: dict[str, tuple[Callable[..., Any], int]] = {  # bits an element
    "abs": (lambda x, y: x.abs(), 2),
    "clamp": (lambda x, y: x.clamp(-1, 1), 1),
    "clamp with one bound": (lambda x, y: x.clamp_min(0), 1),
    "clamp between tensors": (lambda x, y: x.clamp(y - 1, y + 1), 2),
    "maximum": (stowgrad.maximum, 2),
    "minimum": (stowgrad.minimum, 2),
    "fmax": (stowgrad.fmax, 1),
    "fmin": (stowgrad.fmin, 1),
    "nan_to_num": (lambda x, y: x.nan_to_num(), 1),
    "floor": (lambda x, y: x.floor(), 0),
    "sign": (lambda x, y: x.sign(), 0),
    "frac": (lambda x, y: x.frac(), 0),
    "lerp by a number": (lambda x, y: stowgrad.lerp(x, y, 0.25), 0),
    "deg2rad": (lambda x, y: x.deg2rad(), 0),
}


@pytest.mark.parametrize("case", KEPT)
def test_few_bits_are_kept(case: str):
    function, bits = KEPT[case]
    x, y = (stowgrad.randn(4096).requires_grad_() for _ in range(2))
    before = stowgrad.memory.memory_allocated()
    result = function(x, y)
    assert stowgrad.memory.memory_allocated() - before - result.nbytes <= bits * 4096 // 8 + 128 * bits


@pytest.mark.parametrize("case", ["abs", "clamp", "clamp with one bound", "maximum", "minimum", "fmax", "fmin"])
def test_no_bits_are_made_where_nothing_is_recorded(case: str):
    function, _ = KEPT[case]
    x, y = (stowgrad.randn(4096).requires_grad_() for _ in range(2))
    before = stowgrad.memory.memory_allocated()
    stowgrad.memory.reset_peak_memory_stats()
    with stowgrad.no_grad():
        result = function(x, y)
    assert stowgrad.memory.max_memory_allocated() - before == result.nbytes


@pytest.mark.parametrize("name", ["abs_", "clamp_"])
def test_no_bits_are_made_by_writes_that_are_not_recorded(name: str):
    x = stowgrad.randn(4096)
    before = stowgrad.memory.memory_allocated()
    stowgrad.memory.reset_peak_memory_stats()
    getattr(x, name)(*(-1, 1) if name == "clamp_" else ())
    assert stowgrad.memory.max_memory_allocated() == before


def test_marks_of_a_view_written_in_place():
    base = stowgrad.tensor([[-2.0, 0.5], [3.0, -0.5]], requires_grad=True)
    x = base * 1
    x[:, 0].clamp_(-1, 1)
    x[0].abs_()
    (x * stowgrad.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert x.tolist() == [[1.0, 0.5], [1.0, -0.5]]
    assert base.grad.tolist() == [[0.0, 2.0], [0.0, 4.0]]


def test_writes_whose_operands_share_memory():
    x = stowgrad.tensor([1.0, 2.0, 3.0])
    x.addcmul_(x, x)
    assert x.tolist() == [2.0, 6.0, 12.0]
    x.lerp_(x.flip(0), 0.5)
    assert x.tolist() == [7.0, 6.0, 7.0]
    x[1:].clamp_(max=x[:-1])
    assert x.tolist() == [7.0, 6.0, 6.0]


def test_in_place_absolute_values_of_complex_numbers_are_refused():
    with pytest.raises(RuntimeError, match="not supported for complex"):
        stowgrad.tensor([1 + 2j]).abs_()


def test_scipy_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch):
    from stowgrad.kernels.numpy_ import scipy_

    with pytest.raises(ImportError, match=r'pip install "stowgrad\[scipy\]"'):
        scipy_.load("scipy.no_such_module")
