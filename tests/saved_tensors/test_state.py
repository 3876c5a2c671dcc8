"""Hooks are scoped: threads, tasks and generators."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import stowgrad
from stowgrad.saved_tensors import saved_tensors_hooks
from stowgrad.saved_tensors.state import State, Under, current, set_state


def counting(calls):
    """Hooks that note each pack in ``calls``."""
    return saved_tensors_hooks(lambda t: calls.append(1) or t, lambda t: t)


def save():
    """Save one value."""
    return stowgrad.ones(2, requires_grad=True).exp()


def test_a_new_thread_has_no_hooks():  # P5, spec 4.3, case A15
    calls = []
    with counting(calls):
        thread = threading.Thread(target=save)
        thread.start()
        thread.join()
    assert calls == []


def test_the_hooks_of_a_thread_are_its_own():  # P5
    calls = []
    entered, done = threading.Event(), threading.Event()

    def work():
        with counting(calls):
            entered.set()
            done.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait(10)
    save()
    done.set()
    thread.join()
    assert calls == []


def test_backward_in_another_thread_unpacks():  # spec 4.3
    x = stowgrad.ones(2, requires_grad=True)
    with saved_tensors_hooks(lambda t: t.detach().numpy().copy(), stowgrad.from_numpy):
        y = x.log().sum()
    thread = threading.Thread(target=y.backward)
    thread.start()
    thread.join()
    assert x.grad.tolist() == [1.0, 1.0]


def test_tasks_do_not_see_each_other_s_hooks():  # P5, case A16
    calls = []

    async def hooked():
        with counting(calls):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def other():
        await asyncio.sleep(0)
        save()

    async def both():
        await asyncio.gather(hooked(), other())

    asyncio.run(both())
    assert calls == []


def test_a_task_keeps_its_hooks_over_an_await():  # P5, case A16
    calls = []

    async def hooked():
        with counting(calls):
            await asyncio.sleep(0)
            save()

    async def both():
        await asyncio.gather(hooked(), asyncio.sleep(0))

    asyncio.run(both())
    assert calls == [1]


def test_a_suspended_generator_is_part_of_its_caller_s_context():  # P5
    calls = []

    def inside():
        with counting(calls):
            yield

    running = inside()
    next(running)
    save()
    running.close()
    save()
    assert calls == [1]


def test_context_managers_made_of_generators_work():  # P5
    calls = []

    @contextlib.contextmanager
    def mine():
        with counting(calls):
            yield

    with mine():
        save()
    save()
    assert calls == [1]


def test_async_context_managers_may_be_left_in_another_task():  # P5: restored by setting, not by a token
    calls = []

    @contextlib.asynccontextmanager
    async def mine():
        with counting(calls):
            yield

    async def main():
        async with mine():
            await asyncio.sleep(0)
            save()
        save()

    asyncio.run(main())
    assert calls == [1]


def test_under_changes_one_thing_and_restores_it():
    before = current()
    with Under(grad_enabled=False):
        assert (current().grad_enabled, current().hooks) == (False, before.hooks)
    assert current() is before


def test_under_restores_after_an_exception():
    before = current()
    with contextlib.suppress(KeyError), Under(hooks=(saved_tensors_hooks(None, None),)):
        raise KeyError
    assert current() is before


def test_a_state_that_is_set_is_current():
    before = current()
    state = State(True, ())
    set_state(state)
    found = current()
    set_state(before)
    assert found is state
