"""Every op of the table on a CUDA device: results and gradients are the CPU's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import stowgrad

from ...fake_cupy.places import PLACES, cupy_at
from .cases import CASES, Case

# Each kind of device draws its own numbers.
DRAWN = ("dropout", "rrelu", "poisson", "binomial", "standard_gamma")
DETERMINISTIC = [case for case in CASES if not any(word in f"{case.op} {case.label}" for word in DRAWN)]


@pytest.fixture(scope="module", params=PLACES)
def cuda(request: pytest.FixtureRequest) -> Iterator[str]:
    with cupy_at(request.param):
        yield "cuda:0"


def results(case: Case, device: str) -> list[Any]:
    """The results and the gradients of the sum of their squares."""
    tensors = [tensor.detach().to(device) for tensor in case.tensors()]
    for tensor, needed in zip(tensors, case.needs, strict=True):
        tensor.requires_grad_(needed)
    made = case.function(*tensors)
    outs = made if isinstance(made, tuple | list) else (made,)
    squares = [(out * out).sum() for out in outs if out.requires_grad]
    if squares:
        sum(squares[1:], squares[0]).backward()
    return [tensor.detach().cpu().numpy() for tensor in outs] + [
        tensor.grad.cpu().numpy() for tensor in tensors if tensor.grad is not None
    ]


@pytest.mark.parametrize("case", DETERMINISTIC, ids=lambda case: f"{case.op} {case.label}".strip())
def test_results_and_gradients_are_the_cpus(case: Case, cuda: str) -> None:
    for found, expected in zip(results(case, cuda), results(case, "cpu"), strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def _written(device: str) -> list[Any]:
    """What writes of many kinds leave, and the gradients."""
    rng = np.random.default_rng(8)
    w, u = (stowgrad.tensor(rng.uniform(0.5, 1.5, (4, 5)), device=device, requires_grad=True) for _ in range(2))
    x = w * 1.5
    part, turned = x[1], x.t()
    x.mul_(u).sin_().pow_(2).add_(u[0])
    part.mul_(u[2]).cos_()
    turned[1:3].copy_(w.t()[1:3])
    x[:, [0, 2]] = u[:, :2]
    x[[3, 0], [1, 4]] = w[0, :2].cpu()
    x[x > 1.2] = u[0, 0]
    x[2, ::2] = 0.25
    turned.masked_fill_(turned < 0.5, w[1, 1])
    part.relu_()
    loss = (x * turned.t()).sum() + x[[1, 2], :, None].sum() + x[..., [1, 1]].sum()
    loss.backward()
    return [tensor.detach().cpu().numpy() for tensor in (x, part, turned, w.grad, u.grad)]


def test_writes_are_the_cpus(cuda: str) -> None:
    for found, expected in zip(_written(cuda), _written("cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
