"""Every optimizer beside PyTorch's, with the settings of PyTorch's own table of optimizers."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing._internal.common_optimizers import optim_db

import stowgrad
from stowgrad import nn, optim

SHAPES = [(5, 4), (7,), (2, 3, 2), ()]
# Optimizers of PyTorch's that stowgrad does not offer, each with the reason.
NOT_OFFERED = {
    "Muon": "its update is a series of products of matrices, which no fused kernel does",
    "SparseAdam": "there are no sparse gradients",
}


def plain(value: Any) -> Any:
    """Settings without PyTorch's tensors."""
    return float(value) if isinstance(value, torch.Tensor) else value


CASES = [
    (info.optim_cls.__name__, {name: plain(value) for name, value in given.kwargs.items()})
    for info in optim_db
    if info.optim_cls.__name__ not in {"LBFGS", *NOT_OFFERED}  # L-BFGS needs closures: test_optim_lbfgs.py
    for given in info.optim_inputs_func("cpu")
]


def both(name: str, kwargs: dict[str, Any], start: list[np.ndarray]) -> tuple[Any, Any]:
    ours = getattr(optim, name)([nn.Parameter(stowgrad.tensor(value)) for value in start], **kwargs)
    theirs = getattr(torch.optim, name)([torch.nn.Parameter(torch.tensor(value)) for value in start], **kwargs)
    return ours, theirs


def step(ours: Any, theirs: Any, rng: np.random.Generator, tolerance: float) -> None:
    pairs = list(zip(ours.param_groups[0]["params"], theirs.param_groups[0]["params"], strict=True))
    for x, y in pairs:
        gradient = np.asarray(rng.standard_normal(tuple(x.shape)))
        if x.is_complex():
            gradient = gradient + 1j * rng.standard_normal(tuple(x.shape))
        x.grad, y.grad = stowgrad.tensor(gradient, dtype=x.dtype), torch.tensor(gradient).to(y.dtype)
    ours.step()
    theirs.step()
    for x, y in pairs:
        np.testing.assert_allclose(
            x.detach().double().numpy() if not x.is_complex() else x.detach().numpy(),
            y.detach().double().numpy() if not y.is_complex() else y.detach().numpy(),
            rtol=tolerance,
            atol=tolerance,
        )


def states(optimizer: Any, make: Any) -> dict[str, Any]:
    saved = optimizer.state_dict()
    turned = {
        number: {key: make(np.asarray(value.numpy())) for key, value in values.items()}
        for number, values in saved["state"].items()
    }
    return {"state": turned, "param_groups": saved["param_groups"]}


@pytest.mark.parametrize(("name", "kwargs"), CASES)
def test_ten_steps(name: str, kwargs: dict[str, Any]):
    rng = np.random.default_rng(1)
    ours, theirs = both(name, kwargs, [np.asarray(rng.standard_normal(shape)) for shape in SHAPES])
    for _ in range(10):
        step(ours, theirs, rng, 1e-12)
    mine, other = ours.state_dict(), theirs.state_dict()
    assert mine["param_groups"] == other["param_groups"]
    for number, values in other["state"].items():
        assert list(mine["state"][number]) == list(values)
        for key, value in values.items():
            np.testing.assert_allclose(mine["state"][number][key].numpy(), value.numpy(), rtol=1e-6, atol=1e-14)
            assert str(mine["state"][number][key].dtype) == str(value.dtype).removeprefix("torch.")
    # the states move both ways
    ours.load_state_dict(states(theirs, stowgrad.tensor))
    theirs.load_state_dict(states(ours, torch.tensor))
    step(ours, theirs, rng, 1e-7)


@pytest.mark.parametrize(("name", "kwargs"), CASES)
def test_many_steps(name: str, kwargs: dict[str, Any]):
    rng = np.random.default_rng(2)
    ours, theirs = both(name, kwargs, [np.asarray(rng.standard_normal((3, 4)))])
    for _ in range(30):
        step(ours, theirs, rng, 1e-10)


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES} - {"Adafactor"}))
def test_complex_parameters(name: str):
    rng = np.random.default_rng(3)
    start = [rng.standard_normal((3, 2)) + 1j * rng.standard_normal((3, 2))]
    ours, theirs = both(name, {"lr": 0.1}, start)
    for _ in range(4):
        step(ours, theirs, rng, 1e-11)


def test_adafactor_refuses_complex_parameters():
    ours, theirs = both("Adafactor", {}, [np.ones(2, complex)])
    with pytest.raises(RuntimeError, match="complex"):
        step(ours, theirs, np.random.default_rng(0), 1)


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES} | {"LBFGS"}))
def test_the_signature_is_pytorchs(name: str):
    def arguments(kind: Any) -> list[tuple[str, Any, Any]]:
        given = inspect.signature(kind).parameters.values()
        return [(p.name, p.kind, p.default) for p in given if p.name != "decoupled_weight_decay"]

    assert arguments(getattr(optim, name)) == arguments(getattr(torch.optim, name))


WRONG = [
    (name, {key: value})
    for name in sorted({name for name, _ in CASES})
    for key, value in {
        "lr": -1.0,
        "eps": -1.0,
        "betas": (1.0, 0.5),
        "weight_decay": -1.0,
        "momentum": -1.0,
        "rho": 1.5,
        "alpha": -1.0,
        "lr_decay": -1.0,
        "initial_accumulator_value": -1.0,
        "momentum_decay": -1.0,
        "etas": (1.5, 2.0),
        "beta2_decay": 1.0,
        "d": 0.5,
    }.items()
    if key in getattr(torch.optim, name)([torch.ones(1)]).defaults
    and (name, key) not in (("ASGD", "alpha"), ("Adafactor", "eps"))  # not looked at; a pair
]


@pytest.mark.parametrize(("name", "kwargs"), WRONG)
def test_wrong_settings(name: str, kwargs: dict[str, Any]):
    with pytest.raises(ValueError) as theirs:
        getattr(torch.optim, name)([torch.ones(1)], **kwargs)
    with pytest.raises(ValueError) as ours:
        getattr(optim, name)([nn.Parameter(stowgrad.ones(1))], **kwargs)
    assert str(ours.value) == str(theirs.value)


def test_every_optimizer_is_offered_or_listed_with_a_reason():
    theirs = {
        name
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and kind is not torch.optim.Optimizer
    }
    assert theirs == {info.optim_cls.__name__ for info in optim_db}
    assert theirs - set(optim.__all__) == NOT_OFFERED.keys()


ERRORS = [
    (info.optim_cls.__name__, number, given)
    for info in optim_db
    if info.optim_cls.__name__ not in NOT_OFFERED
    for number, given in enumerate(info.optim_error_inputs_func("cpu", torch.float32))
]
# What PyTorch asks for and stowgrad does not: tensors of settings work whichever implementation is chosen.
ACCEPTED = ("as a Tensor is not supported for capturable=Fal", "betas must be either both floats or both Tensors")


def ours_of(value: Any) -> Any:
    """Parameters, settings and structures of them, as ours."""
    if isinstance(value, torch.Tensor):
        made = stowgrad.tensor(value.detach().numpy())
        return nn.Parameter(made) if isinstance(value, torch.nn.Parameter) or value.requires_grad else made
    if isinstance(value, dict):
        return {name: ours_of(part) for name, part in value.items()}
    return type(value)(map(ours_of, value)) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize(("name", "number", "given"), ERRORS)
def test_pytorchs_own_wrong_inputs(name: str, number: int, given: Any):
    if any(text in given.error_regex.replace("\\", "") for text in ACCEPTED):
        pytest.skip("not wrong here")
    # of one parameter twice in a group PyTorch warns that it will be an error: here it is
    kind = ValueError if given.error_type is UserWarning else given.error_type
    params, kwargs = given.optimizer_error_input.params, given.optimizer_error_input.kwargs
    mine = [nn.Parameter(stowgrad.ones(1))] if params is None else ours_of(params)
    if isinstance(params, list) and len(params) == 2 and params[0] is params[1]:
        mine[1] = mine[0]
    if given.error_regex.startswith("some parameters appear"):
        mine[1]["params"] = mine[0]["params"]
    with pytest.raises(kind, match=given.error_regex):
        optimizer = getattr(optim, name)(mine, **ours_of(kwargs))
        for parameter in mine:
            parameter.grad = stowgrad.ones_like(parameter)
        optimizer.step()


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_a_step_without_gradients_changes_nothing(name: str):
    for library, kind in ((stowgrad, nn.Parameter), (torch, torch.nn.Parameter)):
        parameter = kind(library.ones(3))
        optimizer = getattr(library.optim, name)([parameter], lr=0.1)
        before = repr(optimizer.state_dict())
        assert optimizer.step() is None
        assert parameter.tolist() == [1, 1, 1]
        assert repr(optimizer.state_dict()) == before


def test_names_of_parameters():
    found = []
    for library in (stowgrad, torch):
        model = library.nn.Sequential(library.nn.Linear(2, 2), library.nn.Linear(2, 1, bias=False))
        optimizer = library.optim.AdamW(model.named_parameters())
        states = [optimizer.state_dict()]
        other = library.optim.AdamW([(name.upper(), value) for name, value in model.named_parameters()])
        unnamed = library.optim.AdamW(model.parameters()).state_dict()
        states.append(other.state_dict())
        other.load_state_dict(unnamed)
        states.append(other.state_dict())
        other.load_state_dict(optimizer.state_dict())
        states.append(other.state_dict())
        other.step()
        found.append(([state["param_groups"] for state in states], repr(optimizer)))
    assert found[0] == found[1]


def test_both_choices_of_an_implementation():
    for library, parameter in ((optim, nn.Parameter(stowgrad.ones(1))), (torch.optim, torch.ones(1))):
        with pytest.raises(RuntimeError, match="cannot be `True` together"):
            library.AdamW([parameter], foreach=True, fused=True)
