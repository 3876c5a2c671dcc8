"""Writes through views by diagonal, window, stride and size 1, beside PyTorch's: values and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

X = np.linspace(0.5, 2.5, 24).reshape(4, 6)
U = np.linspace(-1.0, 1.0, 36).reshape(6, 6)
VIEWS: dict[str, Callable[[Any], Any]] = {
    "diagonal": lambda x: x.diagonal(1),
    "diagonal of the transpose": lambda x: x.t().diagonal(-2),
    "windows": lambda x: x.unfold(1, 2, 2),
    "windows with gaps": lambda x: x.unfold(0, 1, 3),
    "strides": lambda x: x.as_strided((2, 3), (7, 2)),
    "strides of a part": lambda x: x[1:, 2:].as_strided((2, 2), (6, 1)),
    "strides before a part": lambda x: x[1:, 2:].as_strided((2, 2), (12, 3), 0),
    "strides of the transpose": lambda x: x.t().as_strided((3, 2), (2, 1), 4),
    "size 1": lambda x: x[:, :1].squeeze(1).unsqueeze(0),
    "split": lambda x: x.unflatten(1, (2, 3)).select(1, 1),
    "moved": lambda x: x.unflatten(1, (2, 3)).movedim(2, 0).flatten(1),
    "narrow": lambda x: x.narrow(1, -3, 2).swapaxes(0, 1),
}
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "mul_": lambda part, u: part.mul_(u),
    "copy_": lambda part, u: part.copy_(u),
    "zero_": lambda part, u: part.zero_(),
    "index_fill_": lambda part, u: part.index_fill_(0, u[:1].long() * 0, 0.5) if part.ndim == 1 else part.sin_(),
}


def run(lib: Any, view: Callable[[Any], Any], write: Callable[[Any, Any], Any]) -> list[Any]:
    """The base after a write, the view and a view made before it, and the gradients."""
    w = lib.tensor(X, requires_grad=True)
    x = w * 2
    before = x[:, 1:3]
    part = view(x)
    u = lib.tensor(U.reshape(-1)[: int(np.prod(tuple(part.shape)))].reshape(tuple(part.shape)), requires_grad=True)
    write(part, u * 1)
    loss = (x * lib.tensor(np.cos(X))).sum() + (part * part).sum() + before.sum()
    loss.backward()
    grads = [None if t.grad is None else t.grad.numpy() for t in (w, u)]
    return [t.detach().numpy() for t in (x, part, before)] + grads


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_write_is_pytorchs(view: str, write: str) -> None:
    for found, expected in zip(
        run(stowgrad, VIEWS[view], WRITES[write]), run(torch, VIEWS[view], WRITES[write]), strict=True
    ):
        if found is None or expected is None:
            other = found if expected is None else expected
            assert other is None or not other.any()
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-12)
