"""`inference_mode`, and tensors that were made in it."""

from __future__ import annotations

import threading

import pytest

import stowgrad
from stowgrad import inference_mode, is_grad_enabled, is_inference_mode_enabled


def leaf():
    return stowgrad.tensor([1.0, 2.0], requires_grad=True)


def made():
    with inference_mode():
        return stowgrad.ones(2)


MAKERS = {
    "factory": lambda: stowgrad.ones(2),
    "data": lambda: stowgrad.tensor([1.0]),
    "random": lambda: stowgrad.randn(2),
    "small op": lambda: leaf() * 2,
    "small op on constants": lambda: stowgrad.ones(2).exp(),
    "large op": lambda: stowgrad.ones(2000, requires_grad=True).exp(),
    "clone": lambda: leaf().clone(),
    "sum": lambda: leaf().sum(),
    "matmul": lambda: leaf() @ leaf(),
    "cast": lambda: leaf().double(),
    "device": lambda: leaf().to("sim:0"),
    "cat": lambda: stowgrad.cat([leaf(), leaf()]),
    "where": lambda: stowgrad.where(leaf() > 1, leaf(), 0.0),
    "index": lambda: leaf()[stowgrad.tensor([0, 1])],
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_results_are_inference_tensors(make):  # spec 8.4
    with inference_mode():
        y = make()
    assert (y.is_inference(), y.requires_grad, y.is_leaf) == (True, False, True)
    assert not make().is_inference()


def test_the_mode_is_seen_and_restored():  # spec 8.4
    assert not is_inference_mode_enabled()
    with inference_mode():
        assert (is_inference_mode_enabled(), is_grad_enabled()) == (True, False)
    assert (is_inference_mode_enabled(), is_grad_enabled()) == (False, True)


def test_an_exception_restores():  # spec 8.4
    with pytest.raises(KeyError), inference_mode():
        raise KeyError
    assert (is_inference_mode_enabled(), is_grad_enabled()) == (False, True)


def test_false_inside_gives_normal_behaviour():  # spec 8.4
    with inference_mode():
        with inference_mode(False):
            assert (is_inference_mode_enabled(), is_grad_enabled()) == (False, True)
            y = leaf() * 2
        assert is_inference_mode_enabled()
    assert (y.requires_grad, y.is_inference()) == (True, False)


def test_enable_grad_inside_records_nothing():  # spec 8.4
    with inference_mode(), stowgrad.enable_grad():
        assert is_grad_enabled()
        y = leaf() * 2
        z = stowgrad.ones(2000, requires_grad=True).exp()
    assert [(t.requires_grad, t.is_inference()) for t in (y, z)] == [(False, True)] * 2


def test_grad_modes_inside_keep_it():  # spec 8.4
    with inference_mode():
        with stowgrad.no_grad():
            assert is_inference_mode_enabled()
        assert is_inference_mode_enabled()


def test_a_leaf_made_inside_may_require_grad():  # spec 8.3 8.4
    with inference_mode():
        x = stowgrad.ones(2, requires_grad=True)
        y = x * 2
    assert (x.requires_grad, x.is_inference(), y.requires_grad) == (True, True, False)


# -- decorators --------------------------------------------------------------------------------------------------------


def modes():
    return is_inference_mode_enabled(), is_grad_enabled()


@pytest.mark.parametrize("decorate", [inference_mode, inference_mode(), inference_mode(True)])
def test_it_decorates(decorate):  # spec 8.1 8.4
    assert decorate(modes)() == (True, False)
    assert modes() == (False, True)


def test_false_decorates():  # spec 8.4
    inner = inference_mode(False)(modes)
    with inference_mode():
        assert inner() == (False, True)


def test_it_decorates_generators():  # spec 8.1 8.4
    @inference_mode()
    def inside():
        yield modes()
        yield modes()

    assert [(value, modes()) for value in inside()] == [((True, False), (False, True))] * 2


def test_a_new_thread_is_outside():  # spec 8.2 8.4
    seen = []
    with inference_mode():
        thread = threading.Thread(target=lambda: seen.append(modes()))
        thread.start()
        thread.join()
    assert seen == [(False, True)]


# -- inference tensors outside -----------------------------------------------------------------------------------------


def test_they_have_no_version():  # spec 8.4
    with pytest.raises(RuntimeError, match="do not track version counter"):
        _ = made()._version


def test_they_are_changed_in_place_inside_only():  # spec 8.4
    x = made()
    with inference_mode():
        x.add_(1)
    assert x.tolist() == [2.0, 2.0]
    for mode in (stowgrad.enable_grad, stowgrad.no_grad):
        with mode(), pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            x.add_(1)


def test_they_can_not_require_grad_outside():  # spec 8.4
    x = made()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        x.requires_grad_()
    x.requires_grad_(False)
    with inference_mode():
        assert x.requires_grad_().requires_grad


@pytest.mark.parametrize("size", [2, 2000])
def test_they_can_not_be_saved(size):  # spec 3.18 8.4
    with inference_mode():
        c = stowgrad.ones(size)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        stowgrad.ones(size, requires_grad=True) * c


def test_they_can_not_be_saved_by_a_function():  # spec 3.18
    class Scale(stowgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x, c):
            ctx.save_for_backward(c)
            return x * c

    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        Scale.apply(leaf(), made())


def test_ops_that_save_nothing_take_them():  # spec 3.18
    x = leaf()
    (x + made()).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_ops_without_gradients_take_them():  # spec 8.4
    assert not (made() * 2).is_inference()


def test_a_clone_is_a_normal_tensor():  # spec 8.4
    x = made().clone()
    assert (x.is_inference(), x._version) == (False, 0)
    (leaf() * x.requires_grad_()).sum().backward()
    assert x.grad.tolist() == [1.0, 2.0]


def test_views_and_aliases_of_them_are_like_them():  # spec 8.4
    x = made()
    assert all(t.is_inference() for t in (x.view(1, 2), x[0], x.detach(), x.data))


# -- normal tensors inside ---------------------------------------------------------------------------------------------


def test_views_of_normal_tensors_stay_normal():  # spec 8.4
    x = stowgrad.ones(2)
    with inference_mode():
        view = x.view(1, 2)
        assert not view.is_inference()
        view.add_(1)
    assert (x._version, view._version) == (1, 1)


def test_a_saved_tensor_that_is_changed_inside_is_noticed():  # spec 8.4 2.15
    x = leaf()
    h = x * 1
    y = (h * h).sum()
    with inference_mode():
        h.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_backward_inside_gives_inference_gradients():  # spec 7.9
    x = leaf()
    y = (x * x).sum()
    with inference_mode():
        y.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    assert x.grad.is_inference()


def test_the_device_does_not_matter(device):  # spec 8.4
    with inference_mode():
        x = stowgrad.ones(3000, device=device) * 2
    assert x.is_inference()
