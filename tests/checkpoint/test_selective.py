"""Regions that keep what some ops computed."""

from __future__ import annotations

import functools
import time
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_name,
    create_selective_checkpoint_contexts,
    keep_matrix_products,
    keep_names,
    recompute_elementwise,
)
from stowgrad.checkpoint.policies import ELEMENTWISE, MATRIX_PRODUCTS, NORMS
from stowgrad.memory import memory_allocated
from stowgrad.offload import save_on_disk
from stowgrad.saved_tensors import Cast, saved_tensors_hooks

VALUES = np.random.default_rng(0).normal(size=(64, 64))


def leaf(values: Any = VALUES) -> Any:
    return stowgrad.tensor(values, requires_grad=True)


def keeping(policy: Any) -> Any:
    return functools.partial(create_selective_checkpoint_contexts, policy)


class Counting:
    """A region with two matrix products, that counts what its ops compute."""

    def __init__(self) -> None:
        self.ops: list[str] = []

    def __call__(self, x: Any, w: Any) -> Any:
        return (((x @ w).tanh() @ w).sin() * 2.0).sum()


def computed(call: Any) -> list[str]:
    """The ops whose kernels run in a call."""
    from stowgrad.autograd import dispatch

    found: list[str] = []
    original = dispatch.execute

    def execute(op: Any, *args: Any) -> Any:
        found.append(op.name)
        return original(op, *args)

    dispatch.execute = execute
    try:
        call()
    finally:
        dispatch.execute = original
    return found


def gradients(**options: Any) -> tuple[Any, Any]:
    x, w = leaf(), leaf(VALUES.T.copy())
    checkpoint(Counting(), x, w, **options).backward()
    return x.grad.numpy(), w.grad.numpy()


def plain() -> tuple[Any, Any]:
    x, w = leaf(), leaf(VALUES.T.copy())
    Counting()(x, w).backward()
    return x.grad.numpy(), w.grad.numpy()


POLICIES = {
    "function": keep_matrix_products,
    "other function": recompute_elementwise,
    "names": ["matmul"],
    "functions": [stowgrad.matmul, stowgrad.tanh],
    "bool": lambda ctx, op, *inputs: op == "tanh",
    "offload": lambda ctx, op, *inputs: CheckpointPolicy.MUST_CPU_OFFLOAD,
    "nothing": lambda ctx, op, *inputs: CheckpointPolicy.MUST_RECOMPUTE,
    "everything": lambda ctx, op, *inputs: CheckpointPolicy.MUST_SAVE,
    **{decision.name: lambda ctx, op, *inputs, d=decision: d for decision in CheckpointPolicy},
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_gradients_are_those_without_a_checkpoint(policy: Any):  # spec 9.32
    for got, expected in zip(gradients(context_fn=keeping(policy)), plain(), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_what_is_kept_is_not_computed_again():  # spec 9.32
    x, w = leaf(), leaf(VALUES.T.copy())
    loss = checkpoint(Counting(), x, w, context_fn=keeping(["matmul"]))
    again = computed(loss.backward)
    assert again.count("tanh") == 1
    # Two products are kept; the four of backward run.
    assert again.count("matmul") == 4


KEPT = {  # units of one value on the device, and in host memory
    CheckpointPolicy.MUST_SAVE: (1, 0),
    CheckpointPolicy.PREFER_SAVE: (1, 0),
    CheckpointPolicy.MUST_CPU_OFFLOAD: (0, 1),
    CheckpointPolicy.PREFER_CPU_OFFLOAD: (0, 1),
    CheckpointPolicy.MUST_RECOMPUTE: (0, 0),
    CheckpointPolicy.PREFER_RECOMPUTE: (0, 0),
    True: (1, 0),
    False: (0, 0),
}


@pytest.mark.parametrize("decision", KEPT)
def test_every_decision_is_honoured(decision: Any, no_collector: None):  # spec 9.32 (PyTorch: only SAVE), turned by P15
    x = stowgrad.tensor(VALUES, device="sim:0", requires_grad=True)
    device, host = memory_allocated("sim:0"), memory_allocated("cpu")
    policy = lambda ctx, op, *inputs: decision if op == "exp" else False  # noqa: E731
    y = checkpoint(lambda t: t.exp().sin().sum(), x, context_fn=keeping(policy))

    def kept() -> tuple[int, int]:
        on_device, on_host = memory_allocated("sim:0") - device, memory_allocated("cpu") - host
        return on_device // VALUES.nbytes, on_host // VALUES.nbytes

    deadline = time.monotonic() + 10
    while kept() != KEPT[decision] and time.monotonic() < deadline:
        time.sleep(0.01)  # copies to the host are made beside the program
    assert kept() == KEPT[decision]
    assert computed(y.backward).count("exp") == (0 if any(KEPT[decision]) else 1)
    np.testing.assert_array_equal(x.grad.cpu().numpy(), np.exp(VALUES) * np.cos(np.exp(VALUES)))


@pytest.mark.parametrize("decision", [CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, True])
def test_saving_keeps_the_bytes(decision: Any, no_collector: None):
    x = leaf()
    before = memory_allocated()
    y = checkpoint(
        lambda t: t.exp().sin().sum(), x, context_fn=keeping(lambda ctx, op, *i: decision if op == "exp" else False)
    )
    assert memory_allocated() - before == VALUES.nbytes + 8
    y.backward()
    del y
    assert memory_allocated() - before == VALUES.nbytes  # x.grad


def test_results_that_the_second_run_does_not_reach_are_not_kept(no_collector: None):
    x, w = leaf(), leaf(VALUES.T.copy())
    before = memory_allocated()
    y = checkpoint(lambda t, v: ((t @ v).tanh() @ v).sum(), x, w, context_fn=keeping(keep_matrix_products))
    assert memory_allocated() - before == VALUES.nbytes + 8  # the first product; the second is only summed
    again = computed(y.backward)
    assert (again[0], again.count("matmul")) == ("tanh", 4)  # those of backward


@pytest.mark.parametrize("inner_keeps", [False, True])
def test_regions_in_a_region_that_keeps(inner_keeps: bool):  # case F7
    def inner(t: Any) -> Any:
        return (t @ t.t()).tanh() @ t

    def outer(t: Any, call: Any) -> Any:
        return call(inner, t.exp() * 0.1).sin() @ t.t()

    options = {"context_fn": keeping(keep_matrix_products)} if inner_keeps else {}
    x, y = leaf(VALUES[:8, :8]), leaf(VALUES[:8, :8])
    got = checkpoint(outer, x, lambda f, t: checkpoint(f, t, **options), context_fn=keeping(keep_matrix_products)).sum()
    expected = outer(y, lambda f, t: f(t)).sum()
    for value in (got, expected):
        value.backward(retain_graph=True)
        value.backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


def test_a_policy_may_compute_with_the_inputs():
    x = leaf()
    policy = lambda ctx, op, *inputs: bool(inputs[0].mean() > 0)  # noqa: E731
    y = checkpoint(lambda t: t.exp().sin().sum(), x, context_fn=keeping(policy))
    assert "exp" in computed(y.backward)  # the mean of x is below 0


def test_nothing_is_kept_by_default(no_collector: None):
    x = leaf()
    before = memory_allocated()
    y = checkpoint(lambda t: t.exp().sin().sum(), x, context_fn=keeping(lambda ctx, op, *inputs: False))
    assert memory_allocated() - before == 8
    del y


def test_several_passes_read_what_is_kept():  # spec 9.33, P15: PyTorch's second pass fails
    x = leaf()
    y = checkpoint(lambda t: t.exp().sin().sum(), x, context_fn=keeping(["exp"]))
    y.backward(retain_graph=True)
    once = x.grad.numpy().copy()
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), 2 * once)


def test_what_is_kept_goes_through_the_policies_outside(no_collector: None):  # spec 9.33, P15
    x = leaf(np.ones((256, 256)))
    with Cast("bfloat16") as policy:
        y = checkpoint(lambda t: t.exp().sin().sum(), x * 1.0, context_fn=keeping(["exp"]))
    assert policy.statistics().count == 2  # the argument and the result
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(np.e) * np.e, rtol=2.0**-6)


def test_what_is_kept_may_lie_on_disk(tmp_path: Any, no_collector: None):
    x = leaf(np.ones((256, 256)))
    before = memory_allocated()
    with save_on_disk(tmp_path) as policy:
        y = checkpoint(lambda t: t.exp().sin().sum(), x, context_fn=keeping(["exp"]))
    policy.synchronize()
    assert memory_allocated() - before < x._array.nbytes
    y.backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((256, 256), np.cos(np.exp(1.0)) * np.exp(1.0)))


def test_raw_hooks_outside_get_what_is_kept():
    seen = []
    x = leaf()
    with saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t):
        y = checkpoint(lambda t: t.exp().sin().sum(), x, context_fn=keeping(["exp"]))
    assert len(seen) == 2
    y.backward()


def test_a_change_of_what_is_kept_is_not_seen_by_the_second_run():  # case F14; PyTorch 2.13 fails in backward
    def region(t: Any, w: Any) -> Any:
        r = t @ w
        r.relu_()
        return r.sin().sum()

    def run(**options: Any) -> Any:
        x, w = leaf(), leaf(VALUES.T.copy())
        (checkpoint(region, x, w, **options) if options else region(x, w)).backward()
        return x.grad.numpy()

    np.testing.assert_array_equal(run(context_fn=keeping(["matmul"])), run())


def test_second_derivatives():
    x = leaf()
    y = checkpoint(lambda t: t.exp().sin().sum(), x, context_fn=keeping(["exp"]))
    (first,) = stowgrad.autograd.grad(y, x, create_graph=True)
    first.sum().backward()
    e = np.exp(VALUES)
    np.testing.assert_allclose(x.grad.numpy(), e * np.cos(e) - e * e * np.sin(e), rtol=1e-9, atol=1e-9)


# -- names -------------------------------------------------------------------------------------------------------------


def test_values_are_kept_by_name(no_collector: None):
    def region(t: Any) -> Any:
        h = checkpoint_name(t.exp(), "hidden")
        return h.exp().sin().sum()

    x = leaf(VALUES / 9)
    before = memory_allocated()
    y = checkpoint(region, x, context_fn=keeping(keep_names("hidden")))
    assert memory_allocated() - before == VALUES.nbytes + 8
    assert computed(y.backward).count("exp") == 1


def test_a_name_of_an_op_that_saves_a_mask():
    def region(t: Any) -> Any:
        return checkpoint_name(t.relu(), "hidden").exp().sum()

    x = leaf()
    y = checkpoint(region, x, context_fn=keeping(keep_names("hidden")))
    assert "relu" not in computed(y.backward)
    np.testing.assert_array_equal(x.grad.numpy(), np.exp(np.maximum(VALUES, 0)) * (VALUES > 0))


def test_a_name_that_comes_too_late_is_an_error():
    def region(t: Any) -> Any:
        h = t.exp()
        y = h.sin()
        checkpoint_name(h, "hidden")
        return y

    with pytest.raises(RuntimeError, match="right after the operation"):
        checkpoint(region, leaf(), context_fn=keeping(keep_names("hidden")))


# -- ready-made policies -----------------------------------------------------------------------------------------------


def test_element_wise_ops_and_norms_run_again_and_nothing_else():
    weights = [leaf(VALUES * 0.1) for _ in range(2)]

    def region(t: Any, a: Any, b: Any) -> Any:
        h = stowgrad.nn.functional.layer_norm(t, (64,))
        h = stowgrad.nn.functional.gelu(h @ a) * 2.0 + t
        return (h @ b).softmax(-1).cumsum(0).sin().sum()

    x = leaf()
    y = checkpoint(region, x, *weights, context_fn=keeping(recompute_elementwise))
    again = computed(y.backward)
    assert again[:4] == ["native_layer_norm", "gelu", "mul", "add"]
    assert (again.count("softmax"), again.count("matmul")) == (0, 4)  # the products are those of backward


def test_names_of_the_ready_made_policies_are_those_of_ops():
    from stowgrad.autograd.record import Record

    def below(kind: Any) -> Any:
        for derived in kind.__subclasses__():
            yield derived.__dict__.get("name")
            yield from below(derived)

    assert set(below(Record)) >= ELEMENTWISE | MATRIX_PRODUCTS | NORMS
    assert not MATRIX_PRODUCTS & (ELEMENTWISE | NORMS)


@pytest.mark.parametrize("policy", [keep_matrix_products, recompute_elementwise])
def test_a_ready_made_policy_that_matches_nothing_is_reported(policy: Any):
    with pytest.warns(UserWarning, match=rf"{policy.__name__} matched nothing in the region; it has cumsum"):
        checkpoint(lambda t: t.cumsum(0), leaf(), context_fn=keeping(policy))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        (stowgrad.mm, lambda t: (t @ t).tanh()),
        ("bmm", lambda t: (t[None] @ t[None]).tanh()),
        (stowgrad.nn.functional.layer_norm, lambda t: stowgrad.nn.functional.layer_norm(t, (64,)).tanh()),
        (
            stowgrad.nn.functional.conv2d,
            lambda t: stowgrad.nn.functional.conv2d(t[None, None], t[None, None, :3, :3]).exp(),
        ),
    ],
    ids=["mm", "bmm", "layer_norm", "conv2d"],
)
def test_ops_may_be_called_as_people_call_them(name: Any, call: Any):
    checkpoint(call, leaf(), context_fn=keeping([name])).sum().backward()  # a warning would be an error


# -- bad input ---------------------------------------------------------------------------------------------------------


def test_an_op_that_the_region_lacks_is_reported():
    with pytest.warns(UserWarning, match=r"cos matched nothing in the region; it has exp, sum"):
        checkpoint(lambda t: t.exp().sum(), leaf(), context_fn=keeping(["exp", "cos"]))


def test_a_name_that_the_region_lacks_is_reported():
    with pytest.warns(UserWarning, match="hidden matched nothing"):
        checkpoint(lambda t: t.exp().sum(), leaf(), context_fn=keeping(keep_names("hidden")))


@pytest.mark.parametrize("policy", [3, "exp", None])
def test_what_is_no_policy(policy: Any):  # spec 9.32
    with pytest.raises(TypeError, match="expected a function or a list of ops"):
        create_selective_checkpoint_contexts(policy)


def test_a_list_of_what_is_no_op():
    with pytest.raises(TypeError, match="names of ops or functions in the list, got int"):
        create_selective_checkpoint_contexts([3])


def test_a_decision_that_is_none():
    with pytest.raises(TypeError, match="must return a CheckpointPolicy or a bool, got 'yes' for exp"):
        checkpoint(lambda t: t.exp(), leaf(), context_fn=keeping(lambda ctx, op, *inputs: "yes"))
