"""Weight norm and spectral norm, old and new, beside PyTorch's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

from . import moduleinfo

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")

RNG = np.random.default_rng(0)
LAYERS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "Linear": (lambda lib: lib.nn.Linear(4, 6), RNG.standard_normal((5, 4))),
    "square": (lambda lib: lib.nn.Linear(4, 4), RNG.standard_normal((5, 4))),
    "wide": (lambda lib: lib.nn.Linear(4, 2), RNG.standard_normal((5, 4))),
    "Conv2d": (lambda lib: lib.nn.Conv2d(4, 3, 2), RNG.standard_normal((2, 4, 5, 5))),
    "ConvTranspose1d": (lambda lib: lib.nn.ConvTranspose1d(4, 3, 2), RNG.standard_normal((2, 4, 5))),
}


def utils(lib: Any) -> Any:
    return lib.nn.utils


def new(lib: Any) -> Any:
    return lib.nn.utils.parametrizations


CASES: list[tuple[str, Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = []
for LAYER in LAYERS:
    CASES += [
        (LAYER, lambda lib, m: utils(lib).weight_norm(m), lambda lib, m: utils(lib).remove_weight_norm(m)),
        (LAYER, lambda lib, m: utils(lib).spectral_norm(m), lambda lib, m: utils(lib).remove_spectral_norm(m)),
    ]


def plain(lib: Any, module: Any) -> Any:
    return lib.nn.utils.parametrize.remove_parametrizations(module, "weight")


def old_plain(lib: Any, module: Any) -> Any:
    return utils(lib).remove_spectral_norm(module)


CASES += [
    ("Linear", lambda lib, m: utils(lib).weight_norm(m, dim=None), lambda lib, m: utils(lib).remove_weight_norm(m)),
    (
        "Conv2d",
        lambda lib, m: utils(lib).spectral_norm(m, "weight", 3),
        lambda lib, m: utils(lib).remove_spectral_norm(m),
    ),
    ("Linear", lambda lib, m: new(lib).weight_norm(m), plain),
    ("Linear", lambda lib, m: new(lib).weight_norm(m, dim=None), plain),
    ("Conv2d", lambda lib, m: new(lib).weight_norm(m, dim=1), plain),
    ("Linear", lambda lib, m: new(lib).spectral_norm(m), plain),
    ("Linear", lambda lib, m: new(lib).spectral_norm(m, "bias"), lambda lib, m: m),
    ("ConvTranspose1d", lambda lib, m: new(lib).spectral_norm(m, n_power_iterations=2), plain),
    ("Conv2d", lambda lib, m: new(lib).spectral_norm(m, dim=1), plain),
]


def orthogonal(how: str, trivialized: bool) -> Callable[[Any, Any], Any]:
    return lambda lib, m: new(lib).orthogonal(m, orthogonal_map=how, use_trivialization=trivialized)


for LAYER in ("Linear", "square", "wide"):
    CASES += [(LAYER, orthogonal(how, True), plain) for how in ("matrix_exp", "cayley", "householder")]
    CASES += [(LAYER, orthogonal(how, False), plain) for how in ("matrix_exp", "cayley", "householder")]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("case", CASES, ids=[f"{number}-{case[0]}" for number, case in enumerate(CASES)])
def test_like_pytorch(case: Any, training: bool):
    name, apply, remove = case
    make, values = LAYERS[name]
    ours, theirs = apply(stowgrad, make(stowgrad).double()), apply(torch, make(torch).double())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    moduleinfo.load(ours, theirs.train(training))
    twin = copy.deepcopy(ours)
    twin(stowgrad.tensor(values))
    x, y = stowgrad.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True)
    for _ in range(2):
        out, expected = ours(x), theirs(y)
        np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-11)
        out.pow(2).sum().backward()
        expected.pow(2).sum().backward()
    leaves = [(x, y), *zip(ours.parameters(), theirs.parameters(), strict=True)]
    for mine, other in leaves:
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-8, atol=1e-10)
    ours, theirs = remove(stowgrad, ours.eval()), remove(torch, theirs.eval())
    assert list(ours.state_dict()) == list(theirs.state_dict())
    np.testing.assert_allclose(ours(x).detach().numpy(), theirs(y).detach().numpy(), rtol=1e-9, atol=1e-11)
    twin(x)


def test_what_is_refused():
    for lib in (stowgrad, torch):
        layer = utils(lib).weight_norm(lib.nn.Linear(2, 3))
        with pytest.raises(RuntimeError, match="Cannot register two"):
            utils(lib).weight_norm(layer)
        with pytest.raises(ValueError, match="not found"):
            utils(lib).remove_spectral_norm(layer)
        with pytest.raises(ValueError, match="cannot be applied"):
            utils(lib).spectral_norm(lib.nn.Linear(2, 3, bias=False), "bias")
        with pytest.raises(ValueError, match="uninitialized"):
            utils(lib).spectral_norm(lib.nn.LazyLinear(2))
        with pytest.raises(ValueError, match="n_power_iterations"):
            utils(lib).spectral_norm(lib.nn.Linear(2, 3), n_power_iterations=0)
