"""What a checkpointed function keeps, when, and for how long. Sizes are in units of one activation."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import stowgrad
from stowgrad.autograd import Function
from stowgrad.checkpoint import checkpoint
from stowgrad.memory import memory_allocated
from stowgrad.offload import save_on_disk
from stowgrad.saved_tensors import Compress

N = 32_768
UNIT = N * 8  # bytes of one activation

pytestmark = pytest.mark.usefixtures("no_collector")


def leaf(device: str = "cpu") -> Any:
    return stowgrad.full((N,), 0.5, dtype=stowgrad.float64, device=device).requires_grad_()


def chain(x: Any, length: int = 6) -> Any:
    """Every step saves two activations: what exp gives, which sin saves too, and what tanh gives."""
    for _ in range(length):
        x = x.exp().sin().tanh()
    return x


class Kept:
    """Memory above what was in use when this was made, in activations."""

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.begin = memory_allocated(device)

    def now(self) -> int:
        got, rest = divmod(memory_allocated(self.device) - self.begin, UNIT)
        assert rest < UNIT // 8, f"{rest} bytes more than {got} activations"
        return got


def test_only_the_output_is_kept(device: str):
    x = leaf(device)
    kept = Kept(device)
    y = checkpoint(chain, x)
    assert kept.now() == 1
    del y
    assert kept.now() == 0
    y = chain(x)
    assert kept.now() == 2 * 6
    del y


def test_the_forward_peak_is_lower(memprof: Any):
    x = leaf()

    def peak(call: Any) -> int:
        with memprof() as scope:
            y = x
            for _ in range(5):
                y = call(chain, y)
        return int(scope.peak_bytes // UNIT)

    assert peak(lambda function, y: function(y)) == 5 * 2 * 6 + 1
    assert peak(checkpoint) <= 5 + 2  # five outputs, and an op's input and output


def test_one_region_over_everything_does_not_lower_the_peak_and_several_do(memprof: Any):  # spec 12.4
    def peak(regions: int) -> int:
        x = leaf()
        with memprof() as scope:
            y = x
            for _ in range(regions):
                y = checkpoint(lambda t: chain(t, 12 // regions), y)
            y.sum().backward()
        return int(scope.peak_bytes // UNIT)

    assert peak(1) >= 24
    assert peak(4) <= 24 // 4 + 4 + 4


def test_a_pass_frees_everything():
    x = leaf()
    kept = Kept()
    y = checkpoint(chain, x)
    y.sum().backward()
    assert kept.now() == 2  # the output and the gradient
    del y
    x.grad = None
    assert kept.now() == 0


@pytest.mark.parametrize("retain_graph", [False, True])
def test_each_recomputed_value_is_freed_when_it_was_read(retain_graph: bool):  # case G9
    x = leaf()
    kept = Kept()
    figures: list[int] = []

    def function(t: Any) -> Any:
        for _ in range(4):
            t = t.exp()
            t.register_hook(lambda grad: figures.append(kept.now()))
        return t

    checkpoint(function, x).sum().backward(retain_graph=retain_graph)
    # The hooks of the second run's tensors are never called.
    assert len(figures) == 4
    first, *others = figures
    assert others == sorted(others, reverse=True)
    assert others[0] > others[-1]
    assert first <= 2


def test_a_partial_pass_leaves_no_recomputed_values():  # case G8; PyTorch 2.13 keeps them
    x = leaf()
    kept = Kept()
    a, b = checkpoint(lambda t: (t.exp(), chain(t)), x)
    assert kept.now() == 2
    b.sum().backward(inputs=[x], retain_graph=True)
    x.grad = None
    assert kept.now() == 2
    a.sum().backward()
    x.grad = None
    assert kept.now() == 2
    b.sum().backward()
    x.grad = None
    del a, b
    assert kept.now() == 0


def test_values_that_a_partial_pass_did_not_read_are_dropped():  # case G8, spec 9.13 turned by P14
    x = leaf()
    kept = Kept()
    a, b = checkpoint(lambda t: (chain(t).exp(), t.exp()), x)
    b.sum().backward()
    x.grad = None
    assert kept.now() == 2
    del a, b
    assert kept.now() == 0


def test_a_pass_that_keeps_the_graph_leaves_no_recomputed_values():  # spec P14, 9.10
    x = leaf()
    kept = Kept()
    y = checkpoint(chain, x)
    for _ in range(3):
        y.sum().backward(retain_graph=True)
        x.grad = None
        assert kept.now() == 1


def test_a_look_at_a_saved_value_leaves_nothing():  # spec P14, 9.11
    x = leaf()
    kept = Kept()
    y = checkpoint(chain, x)
    y.grad_fn(stowgrad.ones(N, dtype=stowgrad.float64))
    assert kept.now() == 1


def test_a_failed_pass_leaves_no_recomputed_values():  # spec P10, P14; PyTorch 2.13 keeps them (9.19)
    x = leaf()
    fail = x * 1

    def raising(grad: Any) -> None:
        raise ValueError("no")

    fail.register_hook(raising)
    kept = Kept()
    y = checkpoint(chain, fail)
    for _ in range(3):
        try:
            y.sum().backward(retain_graph=True)
        except ValueError:
            pass
        assert kept.now() == 1


def test_a_pass_that_fails_between_recomputed_values_leaves_none():
    x = leaf()

    def function(t: Any) -> Any:
        t = chain(t)
        t.register_hook(raising)
        return chain(t)

    def raising(grad: Any) -> None:
        raise ValueError("no")

    kept = Kept()
    y = checkpoint(function, x)
    for _ in range(3):
        try:
            y.sum().backward(retain_graph=True)
        except ValueError:
            pass
        assert kept.now() == 1


def test_arguments_are_dropped_at_once_if_nothing_was_saved():  # spec 9.9
    x = leaf()
    kept = Kept()
    y = checkpoint(lambda t, more: t + more["b"], x, {"b": stowgrad.ones(N, dtype=stowgrad.float64)})
    assert kept.now() == 1
    y.sum().backward()


def test_arguments_are_dropped_by_the_pass_while_outputs_live():  # spec 9.22
    x = leaf()
    kept = Kept()
    y = checkpoint(lambda t, more: t * more["b"], x, {"b": stowgrad.ones(N, dtype=stowgrad.float64)})
    assert kept.now() == 2
    y.sum().backward()
    x.grad = None
    assert kept.now() == 1


def test_graphs_that_are_dropped_without_a_pass_leave_nothing():  # spec P9
    x = leaf()
    kept = Kept()
    for _ in range(3):
        y = checkpoint(lambda t: checkpoint(chain, t.exp()) * checkpoint(chain, t), x)
        del y
        assert kept.now() == 0


def test_a_closure_that_holds_the_output_is_freed_by_a_pass_or_by_the_collector():  # spec 9.23
    x = leaf()
    kept = Kept()

    def step(backward: bool) -> None:
        box: list[Any] = []

        def function(t: Any) -> Any:
            assert box is not None
            return t.exp().sin()

        box.append(checkpoint(function, x))
        if backward:
            box[0].sum().backward()
            x.grad = None

    step(backward=True)
    assert kept.now() == 0
    step(backward=False)
    assert kept.now() == 1
    gc.collect()
    assert kept.now() == 0


class Squared(Function):
    """Saves its input and its result."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x * x
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        x, _ = ctx.saved_tensors
        return 2 * grad * x


@pytest.mark.parametrize(
    "options",
    [{}, {"debug": True}, {"verify": True}, {"early_stop": False}, {"preserve_rng_state": False}],
    ids=["plain", "debug", "verify", "no early stop", "no random state"],
)
@pytest.mark.parametrize("function", [chain, lambda t: Squared.apply(t.exp())], ids=["ops", "a user's function last"])
def test_steps_in_a_loop_leave_nothing(function: Any, options: Any):  # cases F3, G10
    x = leaf()
    kept = Kept()
    for number in range(4):
        y = checkpoint(function, x, **options).sum()
        if number % 2:
            y.backward()
        x.grad = None
        del y
        assert kept.now() == 0


def test_nested_regions_leave_nothing():
    x = leaf()
    kept = Kept()
    for _ in range(3):
        y = checkpoint(lambda t: checkpoint(chain, checkpoint(chain, t.exp())), x)
        assert kept.now() == 1
        y.sum().backward()
        del y
        x.grad = None
        assert kept.now() == 0


# -- with policies -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", [None, Compress], ids=["disk", "compressed, then disk"])
def test_arguments_go_where_the_policies_outside_send_them(codec: Any):
    x, plain = leaf(), leaf()
    kept = Kept()
    disk = save_on_disk()
    policy = disk if codec is None else Compress("zstd") | disk
    with policy:
        h = x * 1
        y = checkpoint(chain, h)
        del h
    policy.synchronize()
    assert kept.now() == 1
    assert policy.statistics().count == 1
    raw = UNIT if codec is None else 0
    assert policy.statistics().where.keys() == {"disk"}
    assert policy.statistics().where["disk"] >= raw
    y.sum().backward()
    assert policy.statistics().live_count == 0
    chain(plain * 1).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_policies_inside_the_region_win():
    x, plain = leaf(), leaf()
    kept, policy, runs = Kept(), save_on_disk(), []

    def function(t: Any) -> Any:
        runs.append(t)
        with policy:
            return chain(t)

    y = checkpoint(function, x)
    policy.synchronize()
    assert kept.now() == 1
    assert policy.statistics().live_count > 0
    y.sum().backward()
    assert len(runs) == 1
    assert policy.statistics().live_count == 0
    chain(plain).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_what_policies_inside_decline_is_computed_again():
    x, plain, runs = leaf(), leaf(), []
    policy = save_on_disk().where(op="sin")

    def function(t: Any) -> Any:
        runs.append(t)
        with policy:
            return chain(t)

    checkpoint(function, x).sum().backward()
    assert len(runs) == 2
    chain(plain).sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()
