"""Updates during backward: the same results, and no more gradients than are on their way."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.memory import events, pool

WIDTH, LAYERS = 128, 8
LAYER_BYTES = WIDTH * WIDTH * 4


def model() -> nn.Sequential:
    stowgrad.manual_seed(0)
    return nn.Sequential(*[nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)], nn.Linear(WIDTH, 1))


def batches(count: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [stowgrad.tensor(rng.standard_normal((4, WIDTH)).astype(np.float32)) for _ in range(count)]


def values(net: nn.Module) -> list[np.ndarray]:
    return [parameter.detach().numpy().copy() for parameter in net.parameters()]


def assert_same(one: nn.Module, two: nn.Module) -> None:
    for a, b in zip(values(one), values(two), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "make",
    [
        lambda params: optim.AdamW(params, lr=0.01),
        lambda params: optim.SGD(params, lr=0.1, momentum=0.9),
        lambda params: optim.AdamW8bit(params, lr=0.01),
        optim.Adafactor,
    ],
)
def test_the_results_are_the_same_bit_for_bit(make: Any):
    plain, fused = model(), model()
    one, two = make(plain.parameters()), make(fused.parameters())
    optim.in_backward(two)
    schedules = [optim.lr_scheduler.LinearLR(optimizer) for optimizer in (one, two)]
    for x in batches(4):
        for net, optimizer in ((plain, one), (fused, two)):
            (net(x) ** 2).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        for schedule in schedules:
            schedule.step()
        two.load_state_dict(two.state_dict())
    assert_same(plain, fused)


def peak_of_a_step(memprof: Any, fused: bool) -> int:
    """The most that a step needs beyond what is there before it."""
    net = model()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    handle = optim.in_backward(optimizer) if fused else None
    (x,) = batches(1)
    with memprof() as scope:
        (net(x) ** 2).mean().backward()
        optimizer.step()
    assert handle is None or all(parameter.grad is None for parameter in net.parameters())
    return int(scope.peak_bytes)


def test_only_the_gradients_on_their_way_are_kept(memprof: Any):
    saved = peak_of_a_step(memprof, False) - peak_of_a_step(memprof, True)
    assert saved >= (LAYERS - 3) * LAYER_BYTES
    assert peak_of_a_step(memprof, True) < 5 * LAYER_BYTES


def test_clipping_in_two_passes():
    plain, fused = model(), model()
    one, two = (optim.SGD(net.parameters(), lr=0.1) for net in (plain, fused))
    handle = optim.in_backward(two, max_norm=0.01)
    for x in batches(3):
        (plain(x) ** 2).mean().backward()
        expected = nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
        one.step()
        one.zero_grad()
        assert handle.backward((fused(x) ** 2).mean()) == pytest.approx(expected.item(), rel=1e-6)
        two.step()
    for a, b in zip(values(plain), values(fused), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_clipping_leaves_the_gradients_of_others_alone():
    net, other = model(), nn.Parameter(stowgrad.ones(WIDTH))
    handle = optim.in_backward(optim.SGD(net.parameters(), lr=0.0), max_norm=1.0)
    (x,) = batches(1)
    handle.backward((net(x * other) ** 2).mean())
    found = other.grad.numpy().copy()
    other.grad = None
    handle.remove()
    (net(x * other) ** 2).mean().backward()
    np.testing.assert_allclose(found, other.grad.numpy(), rtol=1e-6)


def test_clipping_keeps_no_gradients(memprof: Any):
    net = model()
    handle = optim.in_backward(optim.SGD(net.parameters(), lr=0.1), max_norm=0.1)
    (x,) = batches(1)
    with memprof(budget=5 * LAYER_BYTES - 1):
        handle.backward((net(x) ** 2).mean())


def test_a_norm_that_is_not_finite_updates_nothing():
    net = model()
    handle = optim.in_backward(optim.SGD(net.parameters(), lr=0.1), max_norm=1.0, error_if_nonfinite=True)
    before = values(net)
    with pytest.raises(RuntimeError, match="is nan"):
        handle.backward((net(batches(1)[0] * float("nan")) ** 2).mean())
    for a, b in zip(before, values(net), strict=True):
        np.testing.assert_array_equal(a, b)


def test_clipping_afterwards_is_an_error():
    net = model()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    optim.in_backward(optimizer)
    net(batches(1)[0]).sum().backward()
    with pytest.raises(RuntimeError, match="give it max_norm"):
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)


def test_clipping_needs_its_own_backward():
    net = model()
    handle = optim.in_backward(optim.SGD(net.parameters(), lr=0.1), max_norm=1.0)
    (x,) = batches(1)
    with pytest.raises(RuntimeError, match=r"handle.backward\(loss\)"):
        net(x).sum().backward()
    with pytest.raises(RuntimeError, match="from before"):  # what that pass left
        handle.backward(net(x).sum())


def test_accumulation():
    plain, fused = model(), model()
    one, two = (optim.AdamW(net.parameters(), lr=0.01) for net in (plain, fused))
    optim.in_backward(two, accumulation_steps=3)
    for number, x in enumerate(batches(6), start=1):
        for net, optimizer in ((plain, one), (fused, two)):
            ((net(x) ** 2).mean() / 3).backward()
            if number % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()
    assert_same(plain, fused)


def test_too_few_gradients_are_used_by_step():
    plain, fused = model(), model()
    one, two = (optim.SGD(net.parameters(), lr=0.01) for net in (plain, fused))
    optim.in_backward(two, accumulation_steps=3)
    for x in batches(2):
        for net in (plain, fused):
            net(x).sum().backward()
    one.step()
    two.step()
    assert_same(plain, fused)


def test_accumulation_that_was_not_announced_is_an_error():
    net = model()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    optim.in_backward(optimizer)
    one, two = batches(2)
    net(one).sum().backward()
    with pytest.raises(RuntimeError, match=r"gradient number 2 in one step.*accumulation_steps"):
        net(two).sum().backward()


def test_a_parameter_that_backward_still_needs_is_noticed():
    weight = nn.Parameter(stowgrad.ones(3))
    x = stowgrad.ones(3, requires_grad=True)
    y = weight.detach() * x  # keeps the weight's values, but is not waited for
    optimizer = optim.SGD([weight], lr=0.1)
    optim.in_backward(optimizer)
    z = weight * 2
    with pytest.raises(RuntimeError, match="inplace"):
        # the weight's gradient is complete before the first product's turn
        (z.sum() + y.sum()).backward()


def test_a_closure():
    net = model()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    optim.in_backward(optimizer)
    (x,) = batches(1)

    def closure() -> Any:
        loss = (net(x) ** 2).mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(3)]
    assert losses[2] < losses[0]


def test_a_profiler_sees_one_optimizer_phase_a_step():
    class Watch(events.Observer):
        seen: list[str]

        def begin(self, kind: str, name: str, subject: object = None) -> None:
            if kind == "phase":
                self.seen.append(name)

    net = model()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    optim.in_backward(optimizer)
    watch = Watch()
    watch.seen = []
    events.add_observer(watch)
    try:
        net(batches(1)[0]).sum().backward()
        optimizer.step()
    finally:
        events.remove_observer(watch)
    assert watch.seen.count("optimizer") == 1


def test_removed():
    net = model()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with optim.in_backward(optimizer):
        pass
    before = values(net)
    net(batches(1)[0]).sum().backward()
    np.testing.assert_array_equal(before[0], values(net)[0])
    assert net[0].weight.grad is not None


def test_it_ends_with_the_optimizer_and_leaves_no_cycle():
    gc.collect()
    gc.disable()
    try:
        before = pool("cpu").used_bytes()
        net = model()
        optimizer = optim.AdamW(net.parameters())
        optim.in_backward(optimizer)
        (net(batches(1)[0]) ** 2).mean().backward()
        optimizer.step()
        held = pool("cpu").used_bytes()
        del optimizer
        assert pool("cpu").used_bytes() < held - 2 * LAYERS * LAYER_BYTES  # its state
        (net(batches(1)[0]) ** 2).mean().backward()
        assert net[0].weight.grad is not None
        del net
        assert pool("cpu").used_bytes() == before
    finally:
        gc.enable()


def test_what_it_refuses():
    net = model()
    with pytest.raises(TypeError, match="L-BFGS"):
        optim.in_backward(optim.LBFGS(net.parameters()))
    with pytest.raises(ValueError, match="clip_grad_norm_"):
        optim.in_backward(optim.SGD(net.parameters()), max_norm=1.0, accumulation_steps=2)
    with pytest.raises(ValueError, match="at least 1"):
        optim.in_backward(optim.SGD(net.parameters()), accumulation_steps=0)
