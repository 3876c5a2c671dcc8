"""The tests that the guide shows do what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stowgrad.profiler import pytest_plugin

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "memory-budget-tests.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Named:
    """Registers the plugin as the entry point would, where stowgrad isn't installed with it."""

    def pytest_addoption(self, pluginmanager):
        if not pluginmanager.hasplugin("memprof"):
            pluginmanager.register(pytest_plugin, "memprof")


def shown():
    """Each test file of the guide, and the lines that it says are printed."""
    blocks = FENCE.findall(GUIDE.read_text(encoding="utf-8"))
    for (kind, code), (following, text) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind == "python":
            yield code, text.splitlines() if following == "text" else []


@pytest.mark.parametrize(("code", "lines"), list(shown()))
def test_what_the_guide_shows(pytester, monkeypatch, code, lines):
    monkeypatch.setenv("COLUMNS", "200")
    pytester.makepyfile(test_shown=code)
    pytester.makeini("[pytest]\naddopts = --strict-markers")
    options = ["-p", "no:cacheprovider", "-p", "no:randomly"]
    result = pytester.runpytest_inprocess(*options, plugins=[Named()])
    outcomes = result.parseoutcomes()
    assert ("failed" in outcomes) == code.startswith("# fails"), outcomes
    assert "errors" not in outcomes
    result.stdout.fnmatch_lines(lines)
    if code.startswith("# fails without a baseline"):
        pytester.runpytest_inprocess(*options, "--memprof-update", plugins=[Named()])
        pytester.runpytest_inprocess(*options, plugins=[Named()]).assert_outcomes(passed=1)
