"""Hooks on several tensors at once, and callbacks at the end of a pass."""

from __future__ import annotations

import pytest

import stowgrad
from stowgrad.autograd import backward, grad
from stowgrad.autograd.graph import queue_callback, register_multi_grad_hook


def leaf(*values):
    return stowgrad.tensor(list(values) or [1.0, 2.0], requires_grad=True)


# -- several tensors ---------------------------------------------------------------------------------------------------


def test_a_multi_grad_hook_gets_all_gradients_once():  # spec 7.30
    seen = []
    x, w = leaf(), leaf()
    h = x * w
    register_multi_grad_hook([x, h, w], lambda grads: seen.append([g.tolist() for g in grads]))
    h.sum().backward()
    assert seen == [[[1.0, 2.0], [1.0, 1.0], [1.0, 2.0]]]


def test_a_multi_grad_hook_waits_only_for_what_the_pass_computes():  # spec 7.30
    seen = []
    x, w, other = leaf(), leaf(), leaf()
    h = x * w
    register_multi_grad_hook([x, other, h, w], lambda grads: seen.append([g is not None for g in grads]))
    h.sum().backward(retain_graph=True)
    grad(h.sum(), x, retain_graph=True)
    grad(h.sum(), h)
    assert seen == [[True, False, True, True], [True, False, True, False], [False, False, True, False]]


def test_a_multi_grad_hook_counts_a_root_that_leads_nowhere():  # spec 7.30
    seen = []
    x, w = leaf(), leaf()
    y, z = x * 2, w * 2
    register_multi_grad_hook([y, z], lambda grads: seen.append([g is not None for g in grads]))
    grad([y.sum(), z], x, [stowgrad.ones(()), stowgrad.ones(2)])
    assert seen == [[True, True]]


def test_a_multi_grad_hook_forgets_a_failed_pass():  # spec 7.30
    seen = []
    x, w = leaf(), leaf()
    h = x * 2
    y = (h + w).sum()
    hook = register_multi_grad_hook([x, w], lambda grads: seen.append(len(grads)))
    fails = h.register_hook(lambda g: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            y.backward()
    fails.remove()
    y.backward()
    assert seen == [2]
    hook.remove()


def test_the_first_gradient_of_several():  # spec 7.30
    seen = []
    x, w = leaf(), leaf()
    register_multi_grad_hook([x, w], lambda g: seen.append(g.tolist()), mode="any")
    (x * 2 + w * 3).sum().backward()
    (x * 5).sum().backward()
    assert seen == [[3.0, 3.0], [5.0, 5.0]] or seen == [[2.0, 2.0], [5.0, 5.0]]


def test_other_modes_are_refused():  # spec 7.30
    with pytest.raises(ValueError, match="mode"):
        register_multi_grad_hook([leaf()], print, mode="some")


@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hooks_need_tensors_that_require_grad(mode):  # spec 7.27 7.30
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        register_multi_grad_hook([leaf(), stowgrad.ones(2)], print, mode=mode)


# -- callbacks ---------------------------------------------------------------------------------------------------------


def test_callbacks_run_when_all_gradients_are_there():  # spec 7.31
    log = []
    x, w = leaf(), leaf()

    def finished():
        log.append((x.grad is not None, w.grad is not None))
        if len(log) < 3:
            queue_callback(finished)

    h = x * w
    h.register_hook(lambda g: queue_callback(finished))
    h.sum().backward()
    assert log == [(True, True)] * 3


def test_callbacks_belong_to_a_pass():  # spec 7.31
    with pytest.raises(RuntimeError, match="during a backward pass"):
        queue_callback(print)


def test_a_callback_of_a_failed_pass_is_dropped():  # spec 7.31 7.34
    log = []
    h = leaf() * 2
    h.register_hook(lambda g: queue_callback(lambda: log.append("called")))
    h.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        h.sum().backward()
    (leaf() * 2).sum().backward()
    assert log == []


def test_an_error_in_a_callback_ends_the_pass():  # spec 7.31 7.34
    x = leaf()
    h = x * 2
    h.register_hook(lambda g: queue_callback(lambda: 1 / 0))
    with pytest.raises(ZeroDivisionError):
        backward(h.sum())
    assert x.grad.tolist() == [2.0, 2.0]
