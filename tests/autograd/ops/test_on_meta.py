"""Every op of the table on the meta device, where shape rules alone run: results and gradients look as the CPU's do."""

from __future__ import annotations

from typing import Any

import pytest

import stowgrad

from .cases import CASES, Case

# How many elements a mask chooses depends on values, and complex numbers are viewed where strides fit: there are none.
LEFT_OUT = {"index bools", "view_as_real", "view_as_complex", "view_as_real transposed"}
WITH_SHAPES = [case for case in CASES if f"{case.op} {case.label}".strip() not in LEFT_OUT]


def looks(case: Case, device: str) -> tuple[list[Any], list[Any]]:
    """Shapes and dtypes of the results and of the gradients."""
    tensors = [tensor.detach().to(device) for tensor in case.tensors()]
    for tensor, needed in zip(tensors, case.needs, strict=True):
        tensor.requires_grad_(needed)
    made = case.function(*tensors)
    outs = made if isinstance(made, tuple | list) else (made,)
    live = [out for out in outs if out.requires_grad]
    along = [stowgrad.ones(*out.shape, dtype=out.dtype, device=out.device) for out in live]
    stowgrad.autograd.backward(live, along)
    grads = [tensor.grad for tensor in tensors]
    return [(t.shape, t.dtype) for t in outs], [None if t is None else (t.shape, t.dtype) for t in grads]


@pytest.mark.parametrize("case", WITH_SHAPES, ids=lambda case: f"{case.op} {case.label}".strip())
def test_results_and_gradients_look_as_the_cpus_do(case: Case) -> None:
    assert looks(case, "meta") == looks(case, "cpu")
