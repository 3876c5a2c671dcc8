"""Arguments that are no tensors are named in the error."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: stowgrad.exp([1.0]),
            r"exp\(\): argument 'input' \(position 1\) must be Tensor, not list; .*as_tensor",
        ),
        (lambda: stowgrad.exp(np.ones(2)), r"'input' \(position 1\) must be Tensor, not ndarray"),
        (lambda: stowgrad.exp(input=None), r"'input' \(position 1\) must be Tensor, not NoneType$"),
        (lambda: stowgrad.sum(3.0, axis=0), r"sum\(\): argument 'input' \(position 1\) must be Tensor, not float"),
        (lambda: stowgrad.block_diag(stowgrad.ones(1), 3), r"'tensors' must be Tensor, not int"),
        (lambda: stowgrad.block_diag([2j]), r"block_diag\(\): argument 'tensors' must be Tensors, not complex among"),
        (lambda: stowgrad.linalg.cholesky("a"), r"'A' \(position 1\) must be Tensor, not str"),
        (lambda: nn.BatchNorm1d(2)(1), r"forward\(\): argument 'input' \(position 1\) must be Tensor, not int"),
        (lambda: nn.Flatten()(1), r"Flatten.forward\(\): argument 'input' \(position 1\) must be Tensor, not int"),
    ],
)
def test_what_is_no_tensor_is_named(call: Any, message: str):
    with pytest.raises(TypeError, match=message) as caught:
        call()
    assert caught.value.__context__ is None


def test_the_error_keeps_no_tensors(no_collector: None):  # spec P10
    inside = stowgrad.ones(3)
    try:
        stowgrad.exp([inside])
    except TypeError as error:
        kept = error
    reference = weakref.ref(inside)
    del inside
    assert reference() is None, kept


def test_an_error_of_the_users_code_is_left_alone():
    class Broken(nn.Module):
        def forward(self, input):
            return input.dim()

    with pytest.raises(AttributeError, match="'int' object has no attribute 'dim'"):
        Broken()(1)


def test_a_missing_attribute_of_a_tensor_is_left_alone():
    class Asks(nn.Module):
        def forward(self, input):
            return input.no_such_thing

    with pytest.raises(AttributeError, match="no_such_thing"):
        Asks()(stowgrad.ones(1))


class Forgetful(nn.Module):
    @stowgrad.no_grad()
    def forward(self, x):
        return x * self.norm  # which a tensor has


def test_an_attribute_that_a_module_lacks_is_left_alone():
    with pytest.raises(AttributeError, match="'Forgetful' object has no attribute 'norm'"):
        Forgetful()(stowgrad.ones(1))


def test_a_forward_of_the_instance_may_take_more():
    module = nn.Identity()
    module.forward = lambda x, y: x * module.norm
    with pytest.raises(AttributeError, match="'Identity' object has no attribute 'norm'"):
        module(stowgrad.ones(1), stowgrad.ones(1))
