"""Texts of tensors beside PyTorch's, but for the names of dtypes and where a line breaks before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import stowgrad

LIBRARIES = (stowgrad, torch)
SHAPES = [(), (0,), (0, 3), (3, 0), (1,), (5,), (30,), (2, 3), (3, 4, 2), (2, 2, 2, 2), (1001,), (7, 200), (12, 12, 12)]
DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64", "complex128"]
FORMS = {
    "normal": lambda x: x,
    "whole": lambda x: np.round(x * 10),
    "large": lambda x: x * 1e5,
    "small": lambda x: x * 1e-5,
    "huge": lambda x: x * 1e10,
    "some nan": lambda x: np.where(x > 0.5, np.nan, x),
    "some infinite": lambda x: np.where(x > 0.5, -np.inf, np.round(x * 100)),
    "zeros": np.zeros_like,
    "negative zeros": lambda x: -np.zeros_like(x),
    "all nan": lambda x: np.full_like(x, np.nan),
    "positive": lambda x: np.abs(x) * 100,
    "wide": lambda x: np.exp(4 * x),
}


def text(value: Any) -> str:
    plain = repr(value).replace("torch.", "")
    return re.sub(r",\s+(dtype|grad_fn|requires_grad|size)=", r", \1=", plain)


def compare(*tensors: Any) -> None:
    mine, theirs = (text(tensor) for tensor in tensors)
    assert mine == theirs


def both(values: Any, dtype: str) -> list[Any]:
    with np.errstate(all="ignore"):
        if dtype.startswith("complex"):
            values = values + 1j * values.reshape(-1)[::-1].reshape(values.shape)
        elif dtype[0] in "iub":
            values = np.clip(np.nan_to_num(values, nan=0, posinf=1, neginf=-1), -1e9, 1e9).astype(np.int64)
        if dtype in ("float16", "bfloat16"):  # NumPy and PyTorch may round what is halfway differently
            values = torch.tensor(values).to(getattr(torch, dtype)).double().numpy()
        return [lib.tensor(values).to(getattr(lib, dtype)) for lib in LIBRARIES]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_values(dtype: str, form: str) -> None:
    rng = np.random.default_rng(4)
    for shape in SHAPES:
        compare(*both(np.asarray(FORMS[form](rng.standard_normal(shape))), dtype))


@st.composite
def drawn(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Values of any size and kind, in an array of any shape and dtype."""
    name = draw(st.sampled_from([dtype for dtype in DTYPES if dtype not in ("float16", "bfloat16")]))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    width = 32 if name in ("float32", "complex64") else 64
    elements: st.SearchStrategy[Any] = {
        "f": st.floats(width=width),
        "c": st.complex_numbers(allow_nan=True, width=64 if width == 32 else 128),
        "i": st.integers(-(2**31), 2**31 - 1),
        "u": st.integers(0, 255),
        "b": st.booleans(),
    }[np.dtype(name).kind]
    few = st.sampled_from(draw(st.lists(elements, min_size=1, max_size=4)))  # equal and like ones among them
    return draw(hnp.arrays(name, shape, elements=draw(st.sampled_from([elements, few])), fill=st.nothing()))


@settings(max_examples=40, deadline=None)
@given(drawn())
def test_any_values(values: np.ndarray[Any, Any]) -> None:
    compare(*[lib.from_numpy(values.copy()) for lib in LIBRARIES])


OPTIONS: dict[str, dict[str, Any]] = {
    "precision": {"precision": 2},
    "threshold": {"threshold": 5},
    "few items": {"threshold": 3, "edgeitems": 1},
    "no items": {"threshold": 3, "edgeitems": 0},
    "short lines": {"linewidth": 40},
    "scientific": {"sci_mode": True},
    "never scientific": {"sci_mode": False},
    "short": {"profile": "short"},
    "full": {"profile": "full"},
}


@pytest.fixture
def default_options() -> Iterator[None]:
    yield
    for lib in LIBRARIES:
        lib.set_printoptions(profile="default")


@pytest.mark.usefixtures("default_options")
@pytest.mark.parametrize("name", OPTIONS)
def test_options(name: str) -> None:
    for lib in LIBRARIES:
        lib.set_printoptions(**OPTIONS[name])
    rng = np.random.default_rng(5)
    for shape in SHAPES:
        for dtype in ("float32", "int64", "complex64", "bool"):
            for scale in (1, 50, 1e-6):
                compare(*both(rng.standard_normal(shape) * scale, dtype))


def test_what_follows_the_values() -> None:
    for shape in SHAPES[1:6]:
        for dtype in ("float32", "float64"):
            leaves = [tensor.requires_grad_() for tensor in both(np.ones(shape), dtype)]
            compare(*leaves)
            compare(*[(leaf * 2).sum() for leaf in leaves])
            compare(*[(leaf * 2).exp() for leaf in leaves])
    compare(*[lib.zeros(2, 3, device="meta") for lib in LIBRARIES])
    compare(*[lib.zeros(2, device="meta", dtype=lib.int64) for lib in LIBRARIES])
    compare(*[lib.nn.Parameter(lib.ones(2, 2)) for lib in LIBRARIES])


def test_an_unknown_profile() -> None:
    with pytest.raises(ValueError, match="profile"):
        stowgrad.set_printoptions(profile="loud")


@pytest.mark.usefixtures("default_options")
def test_options_for_a_while() -> None:
    from stowgrad.autograd.printing import get_printoptions, printoptions

    before = get_printoptions()
    with printoptions(precision=1):
        assert repr(stowgrad.tensor(1.25)) == "tensor(1.2)"
    assert get_printoptions() == before
