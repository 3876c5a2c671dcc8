"""Small arrays take shorter ways than others, with the same bits: else a checkpoint would differ from a plain step."""

from __future__ import annotations

import numpy as np
import pytest

import stowgrad
from stowgrad.memory import SMALL_BYTES, events

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


def test_results_lie_in_c_order_however_the_operand_lies():
    x = stowgrad.rand(3, 4, 5).permute(2, 1, 0)
    reductions = [x.sum(1), x.mean(1), x.amax(1), x.max(1).values, x.max(1).indices, x.var(1), x.sum(1, keepdim=True)]
    copies = [x.contiguous(), x.sort(1).indices, x.topk(2, 1).values, x.sort(1, descending=True).indices, x.cumsum(1)]
    products = [x @ x.mT, stowgrad.einsum("abc,bd->adc", x, x[0]), stowgrad.cat([x, x]), stowgrad.stack([x, x], 1)]
    assert all(result.is_contiguous() for result in (*reductions, *copies, *products))


GROWING = {
    "outer": (stowgrad.outer, (300,), (300,)),
    "matmul": (stowgrad.matmul, (300, 1), (1, 300)),
    "linear": (stowgrad.nn.functional.linear, (300, 1), (300, 1)),
    "cat": (lambda x, y: stowgrad.cat([x, y]), (300,), (300,)),
    "stack": (lambda x, y: stowgrad.stack([x, y]), (300,), (300,)),
    "topk": (lambda x, y: x.topk(1).values + y, (2, 300), (2, 1)),
    "split": (lambda x, y: sum(part * y for part in x.split(300)), (600,), (300,)),
    "diagonal": (lambda x, y: x.diagonal() * y, (300, 300), (300,)),
}


@pytest.mark.parametrize("name", GROWING)
def test_what_few_numbers_make_many_of_lies_in_the_pool(name):
    function, *shapes = GROWING[name]
    x, y = (stowgrad.rand(shape, requires_grad=True) for shape in shapes)
    out = function(x, y)
    grads = stowgrad.autograd.grad(out, (x, y), stowgrad.ones_like(out))
    large = [tensor for tensor in (out, *grads) if tensor.nbytes >= SMALL_BYTES]
    assert large
    assert not any(tensor._storage.adopted for tensor in large)
