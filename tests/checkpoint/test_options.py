"""The options of a checkpoint: checks, errors that show what differed, contexts, early stop."""

from __future__ import annotations

import contextlib
import contextvars
import threading
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.checkpoint import (
    CheckpointError,
    GraphExecGroup,
    checkpoint,
    is_recomputing,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

VALUES = np.random.default_rng(0).normal(size=(6, 5))


def leaf() -> Any:
    return stowgrad.tensor(VALUES, requires_grad=True)


# -- determinism -------------------------------------------------------------------------------------------------------


def test_an_unknown_check_is_named():  # spec 9.2
    with pytest.raises(ValueError, match="one of 'default', 'none', got 'strict'"):
        checkpoint(lambda t: t, leaf(), determinism_check="strict")


def test_debug_with_a_context_fn():  # spec 9.2
    with pytest.raises(ValueError, match="debug=True is incompatible"):
        checkpoint(
            lambda t: t, leaf(), debug=True, context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext())
        )


def flipping(first: Any, second: Any) -> Any:
    """A function that does something else when it runs again."""

    def region(t: Any) -> Any:
        return second(t) if is_recomputing() else first(t)

    return region


def test_another_op_with_the_same_shapes_is_an_error():  # P11, case E4: silently wrong in PyTorch
    y = checkpoint(flipping(lambda t: (t * 2.0).exp(), lambda t: (t + 2.0).exp()), leaf())
    with pytest.raises(CheckpointError, match="another operation ran") as caught:
        y.sum().backward()
    text = str(caught.value)
    assert "operation 0, in forward: mul, at " in text
    assert "operation 0, recomputed: add, at " in text
    assert text.count("test_options.py") == 2


def test_another_order_of_what_is_saved_is_an_error():
    y = checkpoint(flipping(lambda t: t.exp() * t.sin(), lambda t: t.sin() * t.exp()), leaf())
    with pytest.raises(CheckpointError, match="another operation ran"):
        y.sum().backward()


def test_other_strides_are_an_error():  # P11; PyTorch never looks at strides (9.16)
    x = stowgrad.tensor(VALUES[:, :5][:5], requires_grad=True)
    y = checkpoint(flipping(lambda t: (t * 1.0).t() * t, lambda t: (t * 1.0) * t), x)
    with pytest.raises(CheckpointError, match="strides"):
        y.sum().backward()


def test_without_the_check_shapes_still_count():  # P11
    y = checkpoint(flipping(lambda t: t.exp(), lambda t: t[:2].exp()), leaf(), determinism_check="none")
    with pytest.raises(CheckpointError, match=r"\[6, 5\](.|\n)*\[2, 5\]"):
        y.sum().backward()


def test_without_the_check_another_op_passes():
    x = leaf()
    checkpoint(
        flipping(lambda t: (t * 2.0).exp(), lambda t: (t + 2.0).exp()), x, determinism_check="none"
    ).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(VALUES + 2))


def test_other_numbers_are_noticed_with_verify():
    y = checkpoint(flipping(lambda t: (t * 2.0).exp(), lambda t: (t * 3.0).exp()), leaf(), verify=True)
    with pytest.raises(CheckpointError, match="other numbers"):
        y.sum().backward()


def test_the_same_numbers_pass_with_verify():
    x = leaf()
    checkpoint(lambda t: (t.t() * 2.0).exp().sum(), x, verify=True).backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.exp(VALUES * 2.0) * 2.0)


def many(t: Any) -> Any:
    for _ in range(20):
        t = t * 1.5
    return t.sin().exp() if is_recomputing() else t.cos().exp()


@pytest.mark.parametrize("how", ["argument", "context"])
def test_debug_lists_all_operations(how: str):  # spec 9.18
    with set_checkpoint_debug_enabled(True) if how == "context" else contextlib.nullcontext():
        y = checkpoint(many, leaf(), debug=how == "argument")
    with pytest.raises(CheckpointError) as caught:
        y.sum().backward()
    assert str(caught.value).count("mul") == 40


def test_without_debug_the_list_is_short():
    with pytest.raises(CheckpointError) as caught:
        checkpoint(many, leaf()).sum().backward()
    assert str(caught.value).count("mul") == 10


def test_state_that_the_region_itself_changes_is_an_error():
    state = stowgrad.from_numpy(np.zeros(5))

    def region(t: Any) -> Any:
        y = (t * state).exp()
        state.add_(1.0)
        return y

    y = checkpoint(region, leaf())
    with pytest.raises(
        RuntimeError, match="modified by an inplace operation: a tensor of category input was read by mul"
    ):
        y.sum().backward()


def test_memory_that_the_region_makes_and_writes_is_its_own():
    def region(t: Any) -> Any:
        out = stowgrad.zeros(6, 5, dtype=t.dtype)
        out[0] = t[0].exp()
        out[1:] = t[1:].sin()
        return out.tanh()

    x, y = leaf(), leaf()
    checkpoint(region, x).sum().backward()
    region(y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


# -- early stop --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "stops"), [("default", True), ("argument", False), ("context", False), ("both", True)])
def test_the_second_run_ends_early_unless_told_otherwise(how: str, stops: bool):  # spec 9.14, case F2
    ends = []

    def region(t: Any) -> Any:
        y = t.exp()
        ends.append(is_recomputing())
        return y

    setting = {"context": False, "both": True}.get(how)
    with set_checkpoint_early_stop(setting) if setting is not None else contextlib.nullcontext():
        y = checkpoint(region, leaf(), early_stop=how not in ("argument", "both"))
    y.sum().backward()
    assert ends == ([False] if stops else [False, True])


def test_more_values_are_an_error_without_early_stop():  # spec 9.16, case E18
    y = checkpoint(
        flipping(lambda t: t.exp(), lambda t: t.exp().sin()), leaf(), early_stop=False, determinism_check="none"
    )
    with pytest.raises(CheckpointError, match=r"different number of tensors(.|\n)*forward: 1\n.*recomputed: 2"):
        y.sum().backward()


# -- contexts ----------------------------------------------------------------------------------------------------------


def test_each_run_has_its_context():  # spec 9.1
    seen: list[str] = []

    @contextlib.contextmanager
    def noting(name: str) -> Any:
        seen.append(f"{name} begins")
        yield
        seen.append(f"{name} ends")

    y = checkpoint(lambda t: t.exp(), leaf(), context_fn=lambda: (noting("first"), noting("second")), early_stop=False)
    assert seen == ["first begins", "first ends"]
    y.sum().backward()
    assert seen[2:] == ["second begins", "second ends"]


def test_a_context_that_swallows_the_exception():  # spec 9.4
    def failing(t: Any) -> Any:
        raise KeyError("inside")

    contexts = (contextlib.suppress(KeyError), contextlib.nullcontext())
    with pytest.raises(RuntimeError, match="swallowed an exception"):
        checkpoint(failing, leaf(), context_fn=lambda: contexts)


def test_context_variables_are_as_in_forward():  # P12; PyTorch restores none (9.8)
    scale = contextvars.ContextVar("scale", default=1.0)
    x = leaf()
    scale.set(3.0)
    y = checkpoint(lambda t: (t * scale.get()).exp(), x)
    scale.set(5.0)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 3.0 * np.exp(3.0 * VALUES))
    assert scale.get() == 5.0


def test_as_a_decorator():
    @checkpoint(early_stop=False)
    def region(t: Any, *, factor: float) -> Any:
        """What it does."""
        return (t * factor).exp()

    x = leaf()
    region(x, factor=2.0).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2.0 * np.exp(2.0 * VALUES))
    assert (region.__name__, region.__doc__) == ("region", "What it does.")


# -- groups of passes --------------------------------------------------------------------------------------------------


def test_passes_of_a_group_share_one_recomputation():  # spec 9.24, case F15
    runs: list[bool] = []

    def region(t: Any) -> Any:
        runs.append(is_recomputing())
        return t.exp().sin()

    x = leaf()
    y = checkpoint(region, x)
    with GraphExecGroup():
        for row in range(6):
            y[row].sum().backward(retain_graph=True)
    assert runs == [False, True]
    np.testing.assert_allclose(x.grad.numpy(), np.exp(VALUES) * np.cos(np.exp(VALUES)))


def test_a_group_leaves_nothing(no_collector: None):  # spec 9.24
    x = leaf()
    y = checkpoint(lambda t: t.exp().sin(), x)
    y.sum().backward(retain_graph=True)
    before = stowgrad.memory.memory_allocated()
    with GraphExecGroup():
        y.sum().backward(retain_graph=True)
        assert stowgrad.memory.memory_allocated() > before
    assert stowgrad.memory.memory_allocated() == before


def test_groups_are_not_nested():  # spec 9.24
    with GraphExecGroup(), pytest.raises(CheckpointError, match="can't be nested"), GraphExecGroup():
        pass


# -- threads -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_threads_with_dropout_give_the_bits_of_one(steps: int):  # case E13, spec 9.25
    from stowgrad.nn import functional as F

    def gradients(seed: int) -> Any:
        generator = stowgrad.Generator().manual_seed(seed)
        x = leaf()
        for _ in range(steps):
            checkpoint(lambda t: F.dropout((t * 2.0).tanh(), 0.4, generator=generator).exp().sum(), x).backward()
        return x.grad.numpy().copy()

    expected = [gradients(seed) for seed in range(8)]
    found: dict[int, Any] = {}
    threads = [threading.Thread(target=lambda s=seed: found.__setitem__(s, gradients(s))) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(8):
        np.testing.assert_array_equal(found[seed], expected[seed])
