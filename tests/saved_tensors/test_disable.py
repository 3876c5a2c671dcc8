"""`disable_saved_tensors_hooks`."""

from __future__ import annotations

import pytest

import stowgrad
from stowgrad.autograd.graph import disable_saved_tensors_hooks
from stowgrad.checkpoint import checkpoint
from stowgrad.offload import save_on_cpu
from stowgrad.saved_tensors import Compress

from .hook_support import Noting, Recording, leaf, same

CONTEXTS = {
    "hooks": lambda: Noting().hooks(),
    "policy": lambda: Compress("zstd"),
    "offload": save_on_cpu,
    "entry": lambda: Recording("a", []),
}


@pytest.mark.parametrize("make", CONTEXTS.values(), ids=CONTEXTS.keys())
def test_entering_hooks_is_an_error(make):  # spec 4.28
    with disable_saved_tensors_hooks("not in here"), pytest.raises(RuntimeError, match=r"^not in here$"):
        make().__enter__()


@pytest.mark.parametrize("make", CONTEXTS.values(), ids=CONTEXTS.keys())
def test_disabling_while_hooks_are_active_is_an_error(make):  # spec 4.28
    with make(), pytest.raises(RuntimeError, match=r"^not now$"):
        disable_saved_tensors_hooks("not now").__enter__()


def test_hooks_work_again_afterwards():  # spec 4.28
    noting = Noting()
    with disable_saved_tensors_hooks("no"):
        pass
    with noting.hooks():
        leaf().exp()
    assert len(noting.packed) == 1


def test_nesting_restores_the_outer_message():  # spec 4.28
    with disable_saved_tensors_hooks("outer"):
        with disable_saved_tensors_hooks("inner"), pytest.raises(RuntimeError, match="inner"):
            Noting().hooks().__enter__()
        with pytest.raises(RuntimeError, match="outer"):
            Noting().hooks().__enter__()


def test_an_exception_restores():  # spec 4.28
    with pytest.raises(KeyError), disable_saved_tensors_hooks("no"):
        raise KeyError
    with Noting().hooks():
        pass


def test_hooks_of_one_slot_stay_allowed():  # spec 4.28
    with disable_saved_tensors_hooks("no"):
        leaf().exp().grad_fn._raw_saved_result.register_hooks(same, same)


def test_a_checkpoint_inside_is_an_error():  # spec 4.28
    with disable_saved_tensors_hooks("no checkpoints"), pytest.raises(RuntimeError, match=r"^no checkpoints$"):
        checkpoint(lambda x: x.exp(), leaf(), use_reentrant=False)


def test_a_checkpoint_may_be_recomputed_inside():  # over 4.28
    x = leaf()
    y = checkpoint(lambda x: x * x, x).sum()
    with disable_saved_tensors_hooks("no"):
        y.backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_ops_run_as_usual():  # spec 4.28
    x = leaf()
    with disable_saved_tensors_hooks("no"), stowgrad.enable_grad():
        (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
