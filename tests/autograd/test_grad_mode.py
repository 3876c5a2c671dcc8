"""`no_grad`, `enable_grad`, `set_grad_enabled`."""

from __future__ import annotations

import asyncio
import threading

import pytest

import stowgrad
from stowgrad import enable_grad, is_grad_enabled, no_grad, set_grad_enabled

OFF = {
    "no_grad": no_grad,
    "set_grad_enabled": lambda: set_grad_enabled(False),
}
off_modes = pytest.mark.parametrize("mode", OFF.values(), ids=OFF.keys())


def test_recording_is_on_by_default():  # spec 8.2
    assert is_grad_enabled()


@off_modes
def test_a_context_turns_it_off_and_back(mode):  # spec 8.1
    with mode():
        assert not is_grad_enabled()
    assert is_grad_enabled()


@off_modes
def test_an_exception_turns_it_back(mode):  # spec 8.1
    with pytest.raises(KeyError), mode():
        raise KeyError
    assert is_grad_enabled()


@pytest.mark.parametrize("inner", [enable_grad, lambda: set_grad_enabled(True)])
def test_nesting_restores(inner):  # spec 8.1
    with no_grad():
        with inner():
            assert is_grad_enabled()
        assert not is_grad_enabled()


def test_one_object_may_be_entered_twice():  # spec 8.1
    mode = no_grad()
    with mode:
        with mode:
            pass
        assert not is_grad_enabled()
    assert is_grad_enabled()


def test_it_decorates_without_a_call():  # spec 8.1
    @no_grad
    def inside():
        return is_grad_enabled()

    assert (inside(), is_grad_enabled()) == (False, True)


@off_modes
def test_it_decorates_with_a_call(mode):  # spec 8.1
    @mode()
    def inside():
        return is_grad_enabled()

    assert is_grad_enabled()
    assert (inside(), is_grad_enabled()) == (False, True)


def test_enable_grad_decorates():  # spec 8.1
    @enable_grad()
    def inside():
        return is_grad_enabled()

    with no_grad():
        assert inside()


def test_a_decorated_function_keeps_its_name():  # spec 8.1
    @no_grad()
    def inside():
        """Text."""

    assert (inside.__name__, inside.__doc__) == ("inside", "Text.")


def test_a_decorated_function_may_call_itself():  # spec 8.1
    @no_grad()
    def inside(depth):
        return is_grad_enabled() or (depth > 0 and inside(depth - 1)) or is_grad_enabled()

    assert not inside(3)
    assert is_grad_enabled()


def test_a_generator_runs_in_the_mode_and_its_caller_does_not():  # spec 8.1
    @no_grad()
    def inside():
        yield is_grad_enabled()
        yield is_grad_enabled()

    seen = [(value, is_grad_enabled()) for value in inside()]
    assert seen == [(False, True), (False, True)]


def test_a_generator_gets_what_is_sent_thrown_and_returned():  # spec 8.1
    @no_grad()
    def inside():
        sent = yield "first"
        try:
            yield (sent, is_grad_enabled())
        except KeyError:
            yield ("caught", is_grad_enabled())
        return "done"

    running = inside()
    assert next(running) == "first"
    assert running.send(5) == (5, False)
    assert running.throw(KeyError()) == ("caught", False)
    with pytest.raises(StopIteration) as stop:
        next(running)
    assert stop.value.value == "done"
    assert is_grad_enabled()


def test_a_closed_generator_finishes_in_the_mode():  # spec 8.1
    seen = []

    @no_grad()
    def inside():
        try:
            yield
        finally:
            seen.append(is_grad_enabled())

    running = inside()
    next(running)
    running.close()
    assert seen == [False]


def test_set_grad_enabled_acts_at_once():  # spec 8.1
    set_grad_enabled(False)
    try:
        assert not is_grad_enabled()
    finally:
        set_grad_enabled(True)


def test_a_new_thread_records():  # spec 8.2
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_a_thread_s_mode_is_its_own():  # spec 8.2
    entered, done = threading.Event(), threading.Event()

    def work():
        with no_grad():
            entered.set()
            done.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(10)
    seen = is_grad_enabled()
    done.set()
    thread.join()
    assert seen


def test_tasks_do_not_see_each_other_s_mode():  # spec 8.2, P5
    seen = []

    async def quiet():
        with no_grad():
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            seen.append(("quiet", is_grad_enabled()))

    async def loud():
        await asyncio.sleep(0)
        seen.append(("loud", is_grad_enabled()))

    async def both():
        await asyncio.gather(quiet(), loud())

    asyncio.run(both())
    assert sorted(seen) == [("loud", True), ("quiet", False)]


def test_factories_keep_requires_grad_without_grad_mode():  # spec 8.3
    with no_grad():
        assert stowgrad.ones(2, requires_grad=True).requires_grad


@pytest.mark.parametrize("size", [2, 3000])
def test_views_and_ops_record_nothing_without_grad_mode(size):  # spec 1.3
    x = stowgrad.ones(size, requires_grad=True)
    with no_grad():
        results = [x * 2, x.exp(), x.sum(), x.view(-1), x[:1], x @ x]
    assert [result.grad_fn for result in results] == [None] * len(results)
