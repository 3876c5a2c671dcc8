"""Texts of tensors beside PyTorch's, but for the names of dtypes and where a line breaks before them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

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
