"""Tensors that come to look at their memory in another way: what is counted, kept and recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

import stowgrad
from stowgrad.autograd import gradcheck, gradgradcheck
from stowgrad.autograd.graph import allow_mutation_on_saved_tensors
from stowgrad.checkpoint import checkpoint
from stowgrad.memory import memory_allocated


def _turned(x: Any) -> Any:
    h = x * x
    part = h[1:]
    h.t_()
    part.mul_(3.0)
    h.unsqueeze_(0)
    part.transpose_(0, 1).as_strided_((2, 2), (2, 1)).exp_()
    return h * part.sum()


def test_gradients_of_any_order() -> None:
    x = stowgrad.tensor(np.random.default_rng(0).standard_normal((3, 2)), requires_grad=True)
    assert gradcheck(_turned, [x])
    assert gradgradcheck(_turned, [x])


def test_a_history_follows_without_recording() -> None:
    x = stowgrad.ones(2, 3, requires_grad=True)
    h = x * 2
    with stowgrad.no_grad():
        h.t_()
    (h * stowgrad.arange(6.0).reshape(3, 2)).sum().backward()
    assert x.grad.tolist() == [[0.0, 4.0, 8.0], [2.0, 6.0, 10.0]]


def test_the_memory_stays_where_it_is(device: str) -> None:
    x = stowgrad.arange(6.0, device=device).reshape(2, 3).clone()
    before, address = memory_allocated(device), x.data_ptr()
    x.t_().unsqueeze_(0).resize_(2, 2).squeeze_().as_strided_((2,), (3,), 1)
    assert memory_allocated(device) == before
    assert x.data_ptr() == address + x.element_size()
    assert x.tolist() == [1.0, 4.0]


def test_a_larger_size_moves_to_new_memory(device: str, no_collector: None) -> None:
    before = memory_allocated(device)
    x = stowgrad.arange(600.0, device=device)
    view = x[2:]
    x.resize_(40, 30)
    assert x.flatten()[:600].tolist() == [float(number) for number in range(600)]
    assert memory_allocated(device) - before == 1200 * 4 + 600 * 4
    x.zero_()
    assert view[0].item() == 2.0
    del view
    assert memory_allocated(device) - before == 1200 * 4
    del x
    assert memory_allocated(device) == before


def test_sizes_without_data() -> None:
    x = stowgrad.zeros(2, 3, device="meta")
    assert x.t_().shape == (3, 2)
    assert x.resize_(10, 10).shape == (10, 10)
    assert x._storage.nbytes == 400


def test_what_was_saved_can_be_kept() -> None:
    with allow_mutation_on_saved_tensors():
        x = stowgrad.ones(2, 3, requires_grad=True)
        h = x * 3
        y = (h * h).sum()
        h.t_()
        y.backward()
    assert x.grad.tolist() == [[18.0] * 3] * 2


def test_a_checkpointed_region_looks_again() -> None:
    x = stowgrad.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)

    def region(x: Any) -> Any:
        h = x * 2
        h.t_()
        return (h * h).sum(0)

    checkpoint(region, x).sum().backward()
    found, x.grad = x.grad, None
    region(x).sum().backward()
    assert found.tolist() == x.grad.tolist()


def test_where_a_tensor_begins() -> None:
    x = stowgrad.arange(12).reshape(3, 4)
    assert (x.storage_offset(), x[1, 2:].storage_offset(), x.t()[2].storage_offset()) == (0, 6, 2)
