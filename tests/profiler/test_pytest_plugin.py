"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import json

import pytest

import stowgrad
from stowgrad.profiler import pytest_plugin

HEAD = """
import numpy as np, pytest
import stowgrad

MIB = 1 << 20

def tensor(mib):
    return stowgrad.zeros(mib * MIB // 4)

"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run a test file in this process, and return what pytest printed."""
    monkeypatch.setenv("COLUMNS", "120")

    def run(body, *arguments, ini="", plugins=True):
        pytester.makeini(f"[pytest]\naddopts = --strict-markers\n{ini}")
        pytester.makepyfile(test_mem=HEAD + body)
        options = ["-p", "no:cacheprovider", "-p", "no:randomly"]
        return pytester.runpytest_inprocess(*options, *arguments, plugins=[] if not plugins else [Named()])

    return run


class Named:
    """Registers the plugin as the entry point would, where stowgrad isn't installed with it."""

    def pytest_addoption(self, pluginmanager):
        if not pluginmanager.hasplugin("memprof"):
            pluginmanager.register(pytest_plugin, "memprof")


def test_a_test_within_its_budget_passes(run):
    run("""
@pytest.mark.memory_budget("4 MiB")
def test_it():
    a = tensor(4)
""").assert_outcomes(passed=1)


def test_a_test_beyond_its_budget_fails_with_the_numbers_first_and_the_explanation_in_a_section(run):
    result = run("""
@pytest.mark.memory_budget("4 MiB")
def test_it():
    kept = tensor(4)
    b = kept + 1
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "peak 8.0 MiB > budget 4.0 MiB (+4.0 MiB, 100.0%) in setup",
            "*- memory budget -*",
            "  test budget   4.0 MiB   (marker on test_mem.py:*)",
            "  peak          8.0 MiB*add*test_mem.py:13*",
            "  phase *peak*budget",
            "*live at the peak*8.0 MiB*100.0%",
            "  full profile: .memprof/test_mem.py__test_it.json*",
            "FAILED test_mem.py::test_it - peak 8.0 MiB > budget 4.0 MiB (+4.0 MiB, 100.0%) in setup",
        ]
    )


def test_the_failure_names_the_variable_that_holds_a_block(run):
    result = run("""
@pytest.mark.memory_budget(backward="14 MiB")
def test_it():
    weight = tensor(4).requires_grad_()
    logits = weight * 2
    loss = logits.square().sum()
    loss.backward()
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["peak * > budget 14.0 MiB*in backward", "  backward *<-- over by*", "*held by local variable 'logits'*"]
    )


def test_phases_saved_and_devices_have_budgets_of_their_own(run):
    run("""
@pytest.mark.memory_budget(saved="4 MiB", backward="16 MiB", device="cpu")
def test_passes():
    x = tensor(4).requires_grad_()
    x.exp().sum().backward()

@pytest.mark.memory_budget(saved="3 MiB")
def test_saves_too_much():
    x = tensor(4).requires_grad_()
    x.exp().sum().backward()

@pytest.mark.memory_budget("1 MiB", device="sim:5")
def test_of_another_device():
    a = tensor(4)
""").assert_outcomes(passed=2, failed=1)


def test_what_fixtures_allocate_counts_only_when_asked_for(run):
    run("""
@pytest.fixture
def data():
    return tensor(4)

@pytest.mark.memory_budget("2 MiB")
def test_it(data):
    a = tensor(2)

@pytest.mark.memory_budget("2 MiB", include="setup")
def test_all(data):
    a = tensor(2)
""").assert_outcomes(passed=1, failed=1)


def test_a_failing_test_keeps_its_own_error(run):
    result = run("""
@pytest.mark.memory_budget("1 MiB")
def test_it():
    a = tensor(4)
    raise KeyError("mine")
""")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*KeyError: 'mine'"])
    result.stdout.no_fnmatch_line("*> budget*")


def test_wrong_arguments_of_the_marker_are_named(run):
    result = run("""
@pytest.mark.memory_budget(forwards="1 MiB")
def test_a():
    pass

@pytest.mark.memory_budget()
def test_b():
    pass

@pytest.mark.memory_budget("1 apple")
def test_c():
    pass
""")
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(
        ["*no argument 'forwards'; expected peak, saved, a phase*", "*needs a size*", "*apple*"]
    )


def test_leaks_are_found_and_named(run):
    result = run("""
CACHE = []

@pytest.mark.no_tensor_leaks
def test_clean():
    a = tensor(1)

@pytest.mark.no_tensor_leaks
def test_leaks():
    CACHE.append(tensor(1))

@pytest.mark.no_tensor_leaks(allow=1)
def test_may_leak_one():
    CACHE.append(tensor(1))
""")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["1 tensors outlive the test (1.0 MiB)", "*held by global variable 'CACHE' of test_mem.py[[]0[]]*"]
    )


def test_the_fixture_measures_scopes_which_may_nest(run):
    run("""
def test_it(memprof):
    kept = tensor(8)
    with memprof("outer") as outer:
        a = tensor(4)
        with memprof("inner", budget="2 MiB") as inner:
            b = tensor(2)
    assert outer.peak_bytes == 6 * MIB
    assert inner.peak_bytes == 2 * MIB

def test_backward(memprof):
    x = tensor(2).requires_grad_()
    with memprof("step") as scope:
        x.exp().sum().backward()
    assert scope.saved.resident_bytes == 2 * MIB
    assert scope.phases["backward"].peak_bytes == scope.peak_bytes >= 4 * MIB

def test_too_much(memprof):
    with memprof("small", budget="1 MiB"):
        a = tensor(4)
""").assert_outcomes(passed=2, failed=1)


BASELINED = """
import os

@pytest.mark.memory_budget(max_ratio=1.1)
def test_it():
    a = tensor(int(os.environ.get("SIZE_OF_IT", "4")))
"""


def test_baselines_are_written_on_demand_and_compared_with(run, pytester, monkeypatch):
    result = run(BASELINED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*has no baseline in *run pytest --memprof-update"])
    run(BASELINED, "--memprof-update").assert_outcomes(passed=1)
    written = json.loads((pytester.path / "memprof-baselines.json").read_text())
    assert written["tests"]["test_mem.py::test_it"]["peak_bytes"] == 4 << 20
    run(BASELINED).assert_outcomes(passed=1)
    monkeypatch.setenv("SIZE_OF_IT", "5")
    result = run(BASELINED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "peak 5.0 MiB > budget 4.4 MiB*",
            "  baseline      4.0 MiB   20*",
            "*what changed since the baseline: +1.0 MiB activations*",
        ]
    )


def test_an_update_keeps_other_tests_and_dates(run, pytester):
    run(BASELINED, "--memprof-update")
    file = pytester.path / "memprof-baselines.json"
    data = json.loads(file.read_text())
    data["tests"]["test_mem.py::test_it"]["date"] = "2020-01-01"
    data["tests"]["gone.py::test_gone"] = {"peak_bytes": 1}
    file.write_text(json.dumps(data))
    run(BASELINED, "--memprof-update")
    tests = json.loads(file.read_text())["tests"]
    assert tests["test_mem.py::test_it"]["date"] == "2020-01-01"
    assert "gone.py::test_gone" in tests


def test_a_peak_may_be_relative_to_another_test(run):
    body = """
@pytest.mark.memory_budget("9 MiB")
def test_plain():
    a = tensor(8)

@pytest.mark.memory_budget(max_ratio=0.5, baseline="memprof-baselines.json::test_plain")
def test_half():
    a = tensor(4)

@pytest.mark.memory_budget(max_ratio=0.4, baseline="memprof-baselines.json::test_plain")
def test_less_than_half():
    a = tensor(4)
"""
    run(body, "--memprof-update", "-k", "plain")
    run(body).assert_outcomes(passed=2, failed=1)


def test_a_budget_for_all_tests_comes_from_the_configuration(run):
    run(
        """
def test_small():
    a = tensor(1)

def test_large():
    a = tensor(3)

@pytest.mark.memory_budget("4 MiB")
def test_with_its_own():
    a = tensor(3)
""",
        ini="memory_budget = 2 MiB",
    ).assert_outcomes(passed=2, failed=1)


def test_the_summary_lists_the_highest_peaks(run):
    result = run(
        """
@pytest.mark.memory_budget("9 MiB")
@pytest.mark.parametrize("mib", [1, 3, 2])
def test_it(mib):
    a = tensor(mib)
""",
        "--memprof-summary=2",
    )
    result.stdout.fnmatch_lines(["*memory of stowgrad's tensors*", "*3.0 MiB*test_it?3?*", "*2.0 MiB*test_it?2?*"])
    result.stdout.no_fnmatch_line("*1.0 MiB*")


def test_peaks_reach_the_junit_file(run, pytester):
    run(
        """
@pytest.mark.memory_budget("9 MiB")
def test_it():
    a = tensor(1)
""",
        "--junitxml=out.xml",
    )
    assert f'name="memory_peak_bytes" value="{1 << 20}"' in (pytester.path / "out.xml").read_text()


def test_a_test_that_is_run_again_is_recorded_again(run, pytester):
    pytester.makeconftest("""
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for last in (False, True):  # as plugins that run failing tests again do it
        item._initrequest()
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    return True
""")
    result = run(
        """
runs = []

@pytest.mark.no_tensor_leaks
@pytest.mark.memory_budget("2 MiB")
def test_it():
    runs.append(1)
    tensor(3 if len(runs) == 1 else 1)
""",
        "--junitxml=out.xml",
    )
    result.assert_outcomes(passed=1)
    assert (pytester.path / "out.xml").read_text().count("memory_peak_bytes") == 1


def test_a_repeated_test_shows_what_every_call_leaves_behind(run):
    result = run("""
kept = []

@pytest.mark.parametrize("mib", [1])
@pytest.mark.memory_budget("2 MiB", repeat=3)
def test_it(mib):
    kept.append(tensor(mib))

@pytest.mark.memory_budget("2 MiB")
def test_once():
    kept.append(tensor(1))

@pytest.mark.memory_budget("2 MiB", repeat=0)
def test_never():
    pass
""")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*peak 3.0 MiB > budget 2.0 MiB*", "*repeat=...) is a whole number of at least 1*"])


@pytest.mark.parametrize("threads", [1, 7])
@pytest.mark.parametrize("setting", ["", "memprof_threads = 3", "memprof_threads = 0"])
def test_figures_do_not_depend_on_the_number_of_threads(run, setting, threads):
    body = """
from stowgrad.nn import functional as F

@pytest.mark.memory_budget("1 GiB")
def test_it():
    assert stowgrad.get_num_threads() == EXPECTED
    x = stowgrad.ones(1 << 21, requires_grad=True)
    F.gelu(x).sum().backward()

def test_outside():
    assert stowgrad.get_num_threads() == THREADS

def test_scope(memprof):
    with memprof():
        assert stowgrad.get_num_threads() == EXPECTED
    assert stowgrad.get_num_threads() == THREADS
"""
    expected = {"": 2, "memprof_threads = 3": 3, "memprof_threads = 0": threads}[setting]
    before = stowgrad.get_num_threads()
    try:
        stowgrad.set_num_threads(threads)
        result = run(body.replace("EXPECTED", str(expected)).replace("THREADS", str(threads)), ini=setting)
    finally:
        stowgrad.set_num_threads(before)
    result.assert_outcomes(passed=3)


def test_tests_without_a_marker_are_not_recorded(run):
    run("""
from stowgrad.memory import events

def test_it():
    assert not events.observers
""").assert_outcomes(passed=1)


def test_workers_record_and_the_controller_collects(run, pytester):
    pytest.importorskip("xdist")
    pytester.makeconftest("""
from stowgrad.profiler import pytest_plugin

def pytest_addoption(pluginmanager):
    if not pluginmanager.hasplugin("memprof"):
        pluginmanager.register(pytest_plugin, "memprof")
""")
    pytester.makeini("[pytest]")
    pytester.makepyfile(
        test_mem=HEAD
        + """
@pytest.mark.memory_budget("4 MiB")
@pytest.mark.parametrize("mib", [1, 3, 5])
def test_it(mib):
    a = tensor(mib)
"""
    )
    result = pytester.runpytest_subprocess("-n2", "-p", "no:randomly", "--memprof-update", "--memprof-summary=3")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*memory budget*", "*memprof: 2 baselines written*", "*5.0 MiB*test_it?5?*"])
    tests = json.loads((pytester.path / "memprof-baselines.json").read_text())["tests"]
    assert sorted(figures["peak_bytes"] for figures in tests.values()) == [1 << 20, 3 << 20]
