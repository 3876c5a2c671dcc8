"""Who holds what: variables, saves, the engine; leaks between steps; windows of steps; the report in a notebook."""

from __future__ import annotations

import gc
import sys
import weakref
from dataclasses import replace

import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.cli.budgets import Budget
from stowgrad.profiler import DeviceUse, memory_profile, render, step
from stowgrad.profiler.budget_tests import Use
from stowgrad.profiler.holders import variables

THERE = stowgrad.ones(3)


def names(tensor, frame):
    return [name.text for name in variables(frame).get(tensor._storage.id, [])]


def test_variables_are_found_by_name_also_in_containers_and_attributes():
    class Box:
        pass

    box = Box()
    box.inside = stowgrad.ones(2)
    several = {"first": [stowgrad.ones(2), stowgrad.ones(2)]}
    alone = stowgrad.ones(2)
    array = alone.numpy()
    frame = sys._getframe()
    assert names(alone, frame) == ["local variable 'alone'", "local variable 'array'"]
    assert names(box.inside, frame) == ["local variable 'box.inside'"]
    assert names(several["first"][1], frame) == ["local variable 'several['first'][1]'"]
    assert array.shape == (2,)


def held(report):
    found = [holder.what for block in report.peak.live for holder in block.held_by if holder.kind == "python"]
    return sorted(what for what in found if what.startswith("local variable"))  # not what other tests left


def test_what_is_bound_only_after_the_peak_is_named_at_the_end():
    with memory_profile() as prof:
        x = stowgrad.ones(1000)
        late = x + 1
    assert held(prof.report()) == ["local variable 'late'", "local variable 'x'"]
    del late


def test_a_failure_names_what_the_variables_on_its_way_held():
    def inner(x):
        made = x.exp()
        raise ValueError(made.shape)

    profile = memory_profile().start()
    try:
        inner(stowgrad.ones(1000))
    except ValueError as error:
        profile.failed(error)
    profile.stop()
    assert held(profile.report()) == ["local variable 'made'", "local variable 'x'"]


def test_of_long_containers_the_ends_are_looked_at():
    numbers = list(range(100_000))
    tensors = [stowgrad.ones(2) for _ in range(200)]
    alone = stowgrad.ones(2)
    frame = sys._getframe()
    assert names(tensors[-1], frame) == ["local variable 'tensors[199]'"]
    assert names(tensors[100], frame) == []
    assert names(alone, frame) == ["local variable 'alone'"]
    del numbers


def test_looking_keeps_nothing_alive():
    def inner():
        gone = stowgrad.ones(5)
        died = weakref.ref(gone._array)
        assert variables(sys._getframe())
        del gone
        return died()

    gc.disable()
    try:
        assert inner() is None
    finally:
        gc.enable()


def test_a_copy_of_the_locals_that_the_program_made_stays_its_own():
    alone = stowgrad.ones(2)
    mine = locals()
    variables(sys._getframe())
    assert mine["alone"] is alone


def train(steps, keep):
    model = nn.Linear(32, 32)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        out = model(stowgrad.ones(64, 32))
        loss = out.square().mean()
        loss.backward()
        if keep:
            losses.append(out)
        optimizer.step()


def test_what_every_step_leaves_behind_is_a_leak_with_a_name():
    with memory_profile() as prof:
        train(4, keep=True)
    (leak,) = prof.report().leaks
    assert leak.nbytes == leak.count * 64 * 32 * 4
    assert leak.steps == (0, 1, 2)
    assert leak.held_by[0].what.startswith("local variable 'losses[")
    assert leak.site.file == "tests/profiler/test_holders.py"
    assert "LEAKS" in render(prof.report())


def test_a_variable_that_is_bound_anew_is_no_leak():
    with memory_profile() as prof:
        train(4, keep=False)
    assert prof.report().leaks == ()


def test_the_engine_holds_what_passes_between_nodes():
    x = stowgrad.ones(100_000, requires_grad=True)
    with memory_profile() as prof:
        (x.exp().exp() * 2).sum().backward()
    kinds = {holder.kind for block in prof.report().peak.live for holder in block.held_by}
    assert {"engine", "saved_tensor"} <= kinds
    until = [h.what for b in prof.report().peak.live for h in b.held_by if h.kind == "engine"]
    assert any(text.startswith("until ") for text in until)


def test_a_kept_value_is_not_saved_any_more_after_its_node():
    x = stowgrad.ones(100_000, requires_grad=True)
    with memory_profile() as prof:
        hidden = x.exp()
        hidden.sum().backward()
        kept = stowgrad.ones(1_000_000)
    block = next(b for b in prof.report().peak.live if b.op == "exp")
    assert [holder.what for holder in block.held_by] == ["local variable 'hidden'"]
    del kept


@pytest.mark.parametrize(("steps", "numbers"), [((1, 3), {1, 2}), ((0, 1), {0}), ((2, None), {2, 3})])
def test_a_window_of_steps_is_recorded_only(steps, numbers):
    with memory_profile(steps=steps) as prof:
        for _ in range(4):
            with step():
                a = stowgrad.ones(1000)
                b = a + 1
        del a, b
    report = prof.report()
    assert {p.step for p in report.phases if p.peak_bytes > p.begin_bytes} == numbers


def test_stacks_are_kept_in_mode_all():
    def outer():
        return stowgrad.ones(1000)

    with memory_profile(record="all", stacks=2) as prof:
        kept = outer()
    block = next(b for b in prof.report().peak.live if b.nbytes == 4000 and not b.is_older)
    assert [site.name.rpartition(".")[2] for site in block.stack] == ["outer", "test_stacks_are_kept_in_mode_all"]
    del kept


def test_a_notebook_shows_the_report():
    with memory_profile() as prof:
        stowgrad.ones(1000)
    shown = prof._repr_html_()
    assert shown.startswith("<pre>memprof")
    assert "&lt;" not in shown or "<script" not in shown


def test_files_are_a_device_of_their_own():
    from stowgrad.offload import save_on_disk

    x = stowgrad.ones(100_000, requires_grad=True)
    with memory_profile() as prof, save_on_disk():
        x.exp().exp().sum().backward()
    report = prof.report()
    assert report.peak_bytes(device="disk") == 2 * 400_000
    full = replace(report, devices=(report.devices[0], DeviceUse("disk", 1 << 40)))
    assert full.peak_bytes() == full.peak_bytes(device="cpu")  # files are no memory
    assert Use(full).shown_device == "cpu"
    assert not Budget(None, full.peak_bytes()).failures(full)
