"""L-BFGS beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad import nn, optim

SETTINGS: list[dict[str, Any]] = [
    {},
    {"lr": 0.01},
    {"lr": 0.5, "max_iter": 3},
    {"lr": 0.1, "history_size": 2, "max_iter": 7},
    {"tolerance_grad": 1e-1, "lr": 0.1},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "history_size": 3},
    {"line_search_fn": "strong_wolfe", "lr": 0.01, "max_iter": 5},
    {"line_search_fn": "strong_wolfe", "lr": 30.0, "max_iter": 4},
    {"line_search_fn": "strong_wolfe", "max_eval": 3},
]


def rosenbrock(x: Any, y: Any) -> Any:
    return ((1 - x) ** 2 + 100 * (y - x**2) ** 2).sum()


def quartic(x: Any, y: Any) -> Any:
    return ((x - 3) ** 4 + (x + 2 * y) ** 2).sum() + (y**2).sum() * 0.1


@pytest.mark.parametrize("function", [rosenbrock, quartic])
@pytest.mark.parametrize("kwargs", SETTINGS)
def test_the_same_path(kwargs: dict[str, Any], function: Any):
    start = [np.array([-1.2, 0.3, 2.0]), np.array([1.0, 0.7, -1.0])]
    results = []
    counts: list[list[int]] = []
    for library, parameters in (
        (stowgrad, [nn.Parameter(stowgrad.tensor(v)) for v in start]),
        (torch, [torch.nn.Parameter(torch.tensor(v)) for v in start]),
    ):
        optimizer = library.optim.LBFGS(parameters, **kwargs)

        def closure(optimizer: Any = optimizer, parameters: Any = parameters) -> Any:
            optimizer.zero_grad()
            loss = function(*parameters)
            loss.backward()
            return loss

        losses = [float(optimizer.step(closure).detach()) for _ in range(2)]
        state = next(iter(optimizer.state.values()))
        counts.append([state["n_iter"], state["func_evals"]])
        results.append([np.array(losses), *[p.detach().numpy() for p in parameters]])
        # it goes on from a saved state
        optimizer.load_state_dict(optimizer.state_dict())
        results[-1].append(np.array(float(optimizer.step(closure).detach())))
    assert counts[0] == counts[1]
    # rounding grows tenfold in a few iterations
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-7)


def test_complex_parameters():
    values = np.array([1 + 2j, -3 + 0.5j])
    found = []
    for library, parameter in (
        (stowgrad, nn.Parameter(stowgrad.tensor(values))),
        (torch, torch.nn.Parameter(torch.tensor(values))),
    ):
        optimizer = library.optim.LBFGS([parameter], line_search_fn="strong_wolfe", max_iter=4)

        def closure(optimizer: Any = optimizer, parameter: Any = parameter, library: Any = library) -> Any:
            optimizer.zero_grad()
            loss = ((parameter.abs() ** 2 - 1) ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        found.append(parameter.detach().numpy())
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_errors():
    parameter = nn.Parameter(stowgrad.ones(1))
    with pytest.raises(ValueError, match="per-parameter options"):
        optim.LBFGS([{"params": [parameter]}, {"params": [nn.Parameter(stowgrad.ones(1))]}])
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([parameter]).step()
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        optim.LBFGS([parameter], line_search_fn="armijo").step(parameter.sum)
