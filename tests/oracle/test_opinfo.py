"""Every operator beside PyTorch's on PyTorch's own sample inputs: see `opinfo`."""

from __future__ import annotations

import pytest

import stowgrad

from . import opinfo
from .not_offered import NOT_OFFERED

NAMES = [name for name, info in opinfo.operators().items() if opinfo.offered(info)]
COMPLEX = [name for name, info in opinfo.operators("complex128").items() if opinfo.offered(info)]
OTHERS = {
    name: opinfo.dtype_of_others(info)
    for name, info in opinfo.others().items()
    if opinfo.offered(info) and opinfo.dtype_of_others(info)
}


def check(name: str, dtype: str, every: int) -> None:
    outcomes = opinfo.run(name, dtype, every)
    problems = [f"sample {outcome.index}, {outcome.problem}" for outcome in outcomes if outcome.problem]
    if problems:
        first = "\n".join(problems[:3])
        pytest.fail(f"{len(problems)} of {len(outcomes)} samples differ from PyTorch\n{first}", pytrace=False)


@pytest.mark.parametrize("name", NAMES)
def test_a_tenth_of_the_samples(name: str):
    check(name, "float64", 10)


@pytest.mark.parametrize("name", COMPLEX)
def test_a_tenth_of_the_complex_samples(name: str):
    """Complex numbers are refused, by NotImplementedError, or right."""
    check(name, "complex128", 10)


@pytest.mark.parametrize("name", OTHERS)
def test_a_tenth_of_the_samples_without_gradients(name: str):
    check(name, OTHERS[name], 10)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_samples(name: str):
    check(name, "float64", 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPLEX)
def test_all_complex_samples(name: str):
    check(name, "complex128", 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_all_samples_without_gradients(name: str):
    check(name, OTHERS[name], 1)


def test_every_operator_is_offered_or_listed_with_a_reason():
    known = opinfo.operators()
    there = {info.name for info in known.values() if opinfo.offered(info)}
    assert not there & NOT_OFFERED.keys(), "offered, and yet listed"
    assert {info.name for info in known.values()} - there == NOT_OFFERED.keys()


def test_most_operators_are_offered():
    assert len(NAMES) >= 330


WRONG = {
    "value": lambda x: x.detach().cos() + x.sin() - x.detach().sin(),
    "gradient": lambda x: x.sin() + 0.01 * (x - x.detach()),
    "second gradient": lambda x: x.sin() + (x - x.detach()) ** 2,
    "dtype": lambda x: x.sin().float(),
    "shape": lambda x: x.sin()[None],
    "requires_grad": lambda x: x.detach().sin(),
    "TypeError": lambda x: x.sin(x, x),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_found(what: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stowgrad, "sin", WRONG[what])
    problems = [outcome.problem for outcome in opinfo.run("sin") if outcome.problem.startswith("sin:")]
    assert problems
    assert all(what in problem for problem in problems)
