"""Passes on several threads: shared leaves, shared graphs, the threads of devices, fork, passes deep inside others."""

from __future__ import annotations

import contextvars
import gc
import os
import signal
import threading
import time

import numpy as np
import pytest

import stowgrad
from stowgrad.autograd import Function, grad
from stowgrad.autograd.graph import current_graph_task_id, queue_callback
from stowgrad.memory import pool

from ..fake_cupy.arrays import Stream, state
from ..fake_cupy.places import cupy_at


def together(count, work):
    """Run ``work(number)`` on so many threads at once; what each returned, or its exception."""
    results = [None] * count
    barrier = threading.Barrier(count)

    def run(number):
        barrier.wait()
        try:
            results[number] = work(number)
        except Exception as error:  # noqa: BLE001
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def on_thread(log, name="node"):
    """The identity; its backward notes on which thread it runs."""

    class Here(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            log.append((name, threading.current_thread().name))
            return g

    return Here.apply


# -- callers -----------------------------------------------------------------------------------------------------------


def test_many_passes_add_exactly_into_shared_leaves():  # spec 7.22
    x, w = (stowgrad.ones(64, requires_grad=True) for _ in range(2))

    def work(number):
        for _ in range(200):
            (x * 2.0 + w * x.detach()).sum().backward()

    assert together(8, work) == [None] * 8
    assert x.grad.tolist() == [3200.0] * 64
    assert w.grad.tolist() == [1600.0] * 64


@pytest.mark.parametrize("kind", ["ops", "function"])
def test_of_passes_that_share_a_graph_one_wins(kind):  # spec 7.22, case I4
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            time.sleep(0.001)
            return g * 2 * x

    square = Square.apply if kind == "function" else lambda x: x * x
    for _ in range(20):
        x = stowgrad.tensor([3.0], requires_grad=True)
        y = square(square(x)).sum()
        results = together(8, lambda number, y=y: y.backward())
        assert results.count(None) == 1
        errors = [error for error in results if error is not None]
        assert all(isinstance(error, RuntimeError) and "second time" in str(error) for error in errors)
        assert x.grad.tolist() == [108.0]


def test_passes_may_share_a_retained_graph():  # spec 7.22
    x = stowgrad.ones(64, requires_grad=True)
    y = (x * x).exp().sum()
    assert together(8, lambda number: [y.backward(retain_graph=True) for _ in range(20)] and None) == [None] * 8
    np.testing.assert_allclose(x.grad.numpy(), 160 * 2 * np.exp(np.ones(64)), rtol=1e-5)


def test_gradients_have_the_same_bits_on_any_thread():  # law 6
    rng = np.random.default_rng(0)
    x, w, g = (stowgrad.tensor(rng.normal(size=s).astype("f4")) for s in [(2, 32, 256), (64, 256), (2, 32, 64)])

    def gradients(number):
        a, b = x.detach().requires_grad_(), w.detach().requires_grad_()
        stowgrad.nn.functional.linear(a, b).backward(g)
        return a.grad.tolist(), b.grad.tolist()

    assert together(1, gradients) == [gradients(0)]


# -- devices -----------------------------------------------------------------------------------------------------------


def test_nodes_run_on_the_thread_of_their_device():  # spec 7.12
    log = []
    x = stowgrad.ones(4, requires_grad=True)
    a = on_thread(log, "first")(x).to("sim:0")
    b = on_thread(log, "there")(a).to("sim:1")
    c = on_thread(log, "further")(b).to("cpu")
    on_thread(log, "last")(c).sum().backward()
    here = threading.current_thread().name
    assert log == [("last", here), ("further", "stowgrad-sim:1"), ("there", "stowgrad-sim:0"), ("first", here)]
    assert x.grad.tolist() == [1.0] * 4


def test_work_crosses_devices_in_both_directions():  # spec 7.12
    x = stowgrad.full((8,), 0.5, requires_grad=True)
    w = stowgrad.full((8,), 0.5, device="sim:0", requires_grad=True)
    h, g = x, w
    for _ in range(10):
        h, g = (h * g.to("cpu")).tanh() + x, (g * h.to("sim:0")).tanh() + w
    (h.sum() + g.to("cpu").sum()).backward()
    y = stowgrad.full((8,), 0.5, requires_grad=True)
    v = stowgrad.full((8,), 0.5, requires_grad=True)
    h, g = y, v
    for _ in range(10):
        h, g = (h * g).tanh() + y, (g * h).tanh() + v
    (h.sum() + g.sum()).backward()
    assert (str(x.grad.device), str(w.grad.device)) == ("cpu", "sim:0")
    assert x.grad.tolist() == y.grad.tolist()
    assert w.grad.tolist() == v.grad.tolist()


def test_leaves_accumulate_on_the_thread_of_their_device():  # spec 7.12
    log = []
    x = stowgrad.ones(4, requires_grad=True)
    w = stowgrad.ones(4, device="sim:0", requires_grad=True)
    for name, t in (("x", x), ("w", w)):
        t.register_post_accumulate_grad_hook(lambda t, name=name: log.append((name, threading.current_thread().name)))
    (x.to("sim:0") * w).sum().backward()
    assert sorted(log) == [("w", "stowgrad-sim:0"), ("x", threading.current_thread().name)]


def test_a_root_on_a_device_may_be_a_leaf():
    w = stowgrad.ones(1, device="sim:0", requires_grad=True)
    w.backward()
    assert w.grad.tolist() == [1.0]


def test_the_context_comes_along():  # P5
    variable = contextvars.ContextVar("variable", default="nothing")
    seen = []
    h = stowgrad.ones(4, device="sim:0", requires_grad=True) * 2
    h.register_hook(lambda g: seen.append((variable.get(), current_graph_task_id() >= 0, stowgrad.is_grad_enabled())))
    h.register_hook(lambda g: queue_callback(lambda: seen.append(threading.current_thread().name)))
    variable.set("mine")
    h.sum().backward()
    assert seen == [("mine", True, False), threading.current_thread().name]


def test_an_exception_comes_from_a_device_s_thread():  # spec 7.34
    def fail(g):
        raise KeyError("there")

    h = stowgrad.ones(4, device="sim:0", requires_grad=True) * 2
    handle = h.register_hook(fail)
    y = h.sum()
    with pytest.raises(KeyError, match="there") as caught:
        y.backward()
    assert caught.value.__notes__ == ["This happened in backward, at MulBackward0."]
    handle.remove()
    y.backward()


def test_cuda_nodes_run_on_the_stream_of_the_caller(monkeypatch):
    with cupy_at("double"):
        stream = Stream()
        monkeypatch.setattr(state, "stream", stream)
        seen = []
        h = stowgrad.ones(4, device="cuda:0", requires_grad=True) * 2
        h.register_hook(lambda g: seen.append((threading.current_thread().name, state.stream is stream)))
        h.sum().backward()
        assert seen == [("stowgrad-cuda:0", True)]


def test_a_recorded_pass_on_a_device():  # spec 7.3
    x = stowgrad.tensor([1.0, 2.0], requires_grad=True).to("sim:0").detach().requires_grad_()
    (first,) = grad((x * x * x).sum(), x, create_graph=True)
    assert grad(first.sum(), x)[0].tolist() == [6.0, 12.0]


def test_a_pass_inside_a_pass_comes_back_to_a_waiting_thread():  # spec 7.15
    log = []

    def inner(level):
        class Inner(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                log.append(threading.current_thread().name)
                if level:
                    with stowgrad.enable_grad():
                        x = stowgrad.ones(1, device=f"sim:{level % 2}", requires_grad=True)
                        inner(level - 1)(x).sum().backward()
                return g

        return Inner.apply

    x = stowgrad.ones(1, device="sim:1", requires_grad=True)
    inner(45)(x).sum().backward()
    assert log == ["stowgrad-sim:1"] + [f"stowgrad-sim:{level % 2}" for level in range(45, 0, -1)]


def test_several_callers_share_the_threads_of_devices():  # spec 7.22
    x = stowgrad.ones(16, device="sim:0", requires_grad=True)
    w = stowgrad.ones(16, device="sim:1", requires_grad=True)

    def work(number):
        for _ in range(20):
            ((x * 2.0).to("sim:1") * w).sum().backward()

    assert together(4, work) == [None] * 4
    assert (x.grad.tolist(), w.grad.tolist()) == ([160.0] * 16, [160.0] * 16)


def test_the_thread_of_a_device_holds_nothing():  # P9
    before = pool("sim:0").used_bytes()
    gc.disable()
    try:
        x = stowgrad.ones(4096, device="sim:0", requires_grad=True)
        x.exp().exp().sum().backward()
        del x
        assert pool("sim:0").used_bytes() == before
    finally:
        gc.enable()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_ctrl_c_stops_a_device_s_thread():  # law 8
    ran = []

    def interrupt(number, frame):
        raise KeyboardInterrupt

    h = x = stowgrad.ones(4, device="sim:0", requires_grad=True)
    for _ in range(20):
        h = h * 1
        h.register_hook(lambda g: (ran.append(1), time.sleep(0.02))[1])
    y = h.sum()
    old = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            y.backward(retain_graph=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert 1 <= len(ran) < 15
    count = len(ran)
    time.sleep(0.05)
    assert (len(ran), x.grad, current_graph_task_id()) == (count, None, -1)
    y.backward()
    assert x.grad.tolist() == [1.0] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_has_threads_of_its_own():  # spec 7.36, surface 9
    def step():
        x = stowgrad.ones(4, device="sim:0", requires_grad=True)
        (x * x).sum().backward()
        return x.grad.tolist() == [2.0] * 4

    assert step()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a child that hangs is a failure
        os._exit(0 if step() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert step()


# -- depth -------------------------------------------------------------------------------------------------------------


def nested(depth, log=None):
    class Nested(Function):
        @staticmethod
        def forward(ctx, x, level):
            ctx.level = level
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if log is not None:
                log.append(current_graph_task_id())
            if ctx.level == 0:
                return g, None
            with stowgrad.enable_grad():
                x = stowgrad.ones(1, requires_grad=True)
                Nested.apply(x, ctx.level - 1).sum().backward()
            return g * x.grad * 1, None

    x = stowgrad.ones(1, requires_grad=True)
    Nested.apply(x, depth).sum().backward()
    return x.grad.tolist()


@pytest.mark.parametrize("depth", [3, 600])
def test_passes_inside_passes(depth):  # spec 7.15
    log = []
    assert nested(depth, log) == [1.0]
    assert len(set(log)) == depth + 1
    assert current_graph_task_id() == -1


def test_an_error_from_deep_inside():  # spec 7.15 7.34
    class Nested(Function):
        @staticmethod
        def forward(ctx, x, level):
            ctx.level = level
            return x * 1

        @staticmethod
        def backward(ctx, g):
            if ctx.level == 0:
                raise KeyError("deep")
            with stowgrad.enable_grad():
                Nested.apply(stowgrad.ones(1, requires_grad=True), ctx.level - 1).sum().backward()

    with pytest.raises(KeyError, match="deep"):
        Nested.apply(stowgrad.ones(1, requires_grad=True), 50).sum().backward()
    assert current_graph_task_id() == -1


# -- devices of gradients ----------------------------------------------------------------------------------------------


def test_a_seed_is_moved_to_its_root():
    x = stowgrad.ones(2, device="sim:0", requires_grad=True)
    (x * 3).backward(stowgrad.tensor([1.0, 2.0]))
    assert (x.grad.tolist(), str(x.grad.device)) == ([3.0, 6.0], "sim:0")


def test_a_function_s_gradient_is_moved_to_its_input():
    class There(Function):
        @staticmethod
        def forward(ctx, x):
            return x.to("sim:0")

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = stowgrad.ones(2, requires_grad=True)
    There.apply(There.apply(x * 1).to("cpu")).sum().backward()
    assert (x.grad.tolist(), str(x.grad.device)) == ([4.0, 4.0], "cpu")
