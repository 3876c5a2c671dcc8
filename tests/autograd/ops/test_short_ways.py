"""Small arrays take shorter ways than others, with the same bits: else a checkpoint would differ from a plain step."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import events

from .cases import CASES

ids = [f"{case.op} {case.label}".strip() for case in CASES]


def run(case, dtype):
    """What a case gives with values of a dtype, and its gradients to second order."""
    stowgrad.manual_seed(3)
    inputs = [
        array.astype(dtype) if isinstance(array, np.ndarray) and array.dtype == np.float64 else array
        for array in case.inputs
    ]
    tensors = [
        stowgrad.tensor(array, requires_grad=array.dtype.kind in "fc") if isinstance(array, np.ndarray) else array
        for array in inputs
    ]
    results = case.function(*tensors)
    results = [r for r in (results if isinstance(results, tuple) else (results,)) if r.requires_grad]
    found = [r.detach().numpy().copy() for r in results]
    leaves = [t for t in tensors if isinstance(t, stowgrad.Tensor) and t.requires_grad]
    if results:
        weights = [stowgrad.ones_like(r) * 0.7 for r in results]
        grads = stowgrad.autograd.grad(results, leaves, weights, allow_unused=True)
        found += [g.numpy().copy() for g in grads if g is not None]
    return found


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=ids)
def test_the_short_way_has_the_bits_of_the_general_way(case, dtype):
    short = run(case, dtype)
    observer = events.Observer()
    events.add_observer(observer)  # whoever watches sees every op, so none takes a short way
    try:
        general = run(case, dtype)
    finally:
        events.remove_observer(observer)
    assert [a.dtype for a in short] == [a.dtype for a in general]
    assert [a.tobytes() for a in short] == [a.tobytes() for a in general]
