"""The pytest plugin: memory budgets of tests, tests that must not leak tensors, the `memprof` fixture and baselines.

Nothing is recorded unless a test asks for it. What is counted is stowgrad's own bytes above what was live when the test
began, so the figures are the same on every machine. The guide: ``docs/memory-budget-tests.md``.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ..kernels.executor import tile_threads
from ..memory import format_size, parse_size
from .budget_tests import Excess, TestBudget, Use, exact, explanation, leak_lines, parse_marker, passed_budgets
from .json_format import dump
from .model import MemoryReport
from .profile import memory_profile

_BASELINES = "stowgrad.memprof-baselines/1"
_DEFAULT_BASELINES = "memprof-baselines.json"
_DEFAULT_DIRECTORY = ".memprof"
_SECTION = "memory budget"
_PROPERTY = "memory_peak_bytes"
_state = pytest.StashKey["_TestState"]()
_run = pytest.StashKey["_Run"]()


class MemoryBudgetFailure(pytest.fail.Exception):  # type: ignore[misc, name-defined]  # pytest types it as Any
    """A test used more memory than it may, or left tensors behind."""


class _TestState:
    """What is known of a test that is being recorded."""

    def __init__(self, profile: memory_profile, budget: TestBudget | None, allowed_leaks: int | None) -> None:
        self.profile = profile
        self.budget = budget
        self.allowed_leaks = allowed_leaks
        self.figures: dict[str, Any] = {}
        self._threads = ExitStack()

    def start(self, threads: int) -> None:
        """Begin to record, with kernels on that many threads."""
        self._threads.enter_context(_threads(threads))
        self.profile.start()

    def stop(self) -> None:
        """End the recording; stopping twice has no effect."""
        self.profile.stop()
        self._threads.close()


def _threads(count: int) -> AbstractContextManager[None]:
    """Kernels on a fixed number of threads, each of which has scratch memory; 0 leaves the number as it is."""
    return tile_threads(count) if count else nullcontext()


class _Run:
    """What a test session collects: baselines read, figures measured."""

    def __init__(self, config: pytest.Config) -> None:
        self.root = config.rootpath
        self.updates = bool(config.getoption("memprof_update", False))
        self.summary = config.getoption("memprof_summary", None)
        self.directory = self.root / (config.getoption("memprof_dir", None) or _DEFAULT_DIRECTORY)
        self.file = self.root / str(config.getini("memprof_baselines"))
        default = str(config.getini("memory_budget"))
        self.default = parse_size(default) if default else None
        self.threads = _whole_number("memprof_threads", str(config.getini("memprof_threads")))
        self.measured: dict[str, dict[str, Any]] = {}
        self.failed: set[str] = set()
        self._read: dict[Path, Mapping[str, Any]] = {}

    def baselines(self, file: Path) -> Mapping[str, Any]:
        """The tests of a baselines file; none if it does not exist."""
        if file not in self._read:
            self._read[file] = _read_baselines(file)
        return self._read[file]

    def baseline(self, test: str, named: str | None) -> Mapping[str, Any] | None:
        """The baseline of a test, or the one that is named as ``FILE::TEST``."""
        if named is None:
            found: Mapping[str, Any] | None = self.baselines(self.file).get(test)
            return found
        file, _, name = named.partition("::")
        tests = self.baselines(self.root / file)
        matching = [key for key in tests if key == name or key.endswith(f"::{name}")]
        if len(matching) != 1:
            what = "no test" if not matching else f"{len(matching)} tests"
            raise MemoryBudgetFailure(f"memory_budget(baseline={named!r}): {what} of that name in {file}", False)
        chosen: Mapping[str, Any] = tests[matching[0]]
        return chosen

    def write(self) -> int:
        """Put what passed into the baselines file; how many tests that were."""
        passed = {test: figures for test, figures in self.measured.items() if test not in self.failed}
        if not passed:
            return 0
        today = datetime.now(UTC).date().isoformat()
        tests = dict(_read_baselines(self.file))
        for test, figures in passed.items():
            old = tests.get(test)
            if old is None or {**old, "date": ""} != {**figures, "date": ""}:  # what did not change keeps its date
                tests[test] = {"date": today, **figures}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"schema": _BASELINES, "tests": dict(sorted(tests.items()))}, indent=1) + "\n"
        self.file.write_text(text, encoding="utf-8")
        return len(passed)


def _whole_number(setting: str, text: str) -> int:
    if not text.isdecimal():
        raise pytest.UsageError(f"memprof: the setting {setting} is a whole number, not {text!r}")
    return int(text)


def _read_baselines(file: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise pytest.UsageError(f"memprof: {file} is no JSON ({error})") from None
    if not isinstance(data, dict) or data.get("schema") != _BASELINES or not isinstance(data.get("tests"), dict):
        raise pytest.UsageError(f'memprof: {file} holds no baselines (its "schema" is not {_BASELINES!r})')
    tests: Mapping[str, Any] = data["tests"]
    return tests


# -- options and markers -----------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options ``--memprof-...`` and the settings of the same names."""
    group = parser.getgroup("memprof", "memory budgets of stowgrad's tensors")
    group.addoption("--memprof-update", action="store_true", help="write the peaks of this run into the baselines file")
    group.addoption("--memprof-dir", metavar="DIR", help="where profiles of failing tests go (default: .memprof)")
    group.addoption("--memprof-summary", type=int, metavar="N", help="list the N recorded tests with the highest peaks")
    parser.addini("memprof_baselines", "the baselines file, below the root directory", default=_DEFAULT_BASELINES)
    parser.addini("memory_budget", "the most memory that any test may use, such as 512 MiB", default="")
    threads = "on how many threads kernels run while a test is recorded (2); 0 leaves it as it is"
    parser.addini("memprof_threads", threads, default="2")


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line(
        "markers",
        "memory_budget(peak, *, saved, forward, backward, ..., device, max_ratio, baseline, include, repeat): fail if"
        ' stowgrad\'s tensors take more memory; sizes as in "64 MiB"',
    )
    config.addinivalue_line(
        "markers", "no_tensor_leaks(allow=0): fail if more tensors' storages than that outlive the test"
    )
    run = config.stash[_run] = _Run(config)
    if not hasattr(config, "workerinput"):  # under xdist, workers only record
        config.pluginmanager.register(_Collector(run))


class _Collector:
    """Collects the figures of all tests, in the controller under xdist."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        figures = getattr(report, "memprof", None)
        if figures:
            self._run.measured[report.nodeid] = figures
        if report.failed:
            self._run.failed.add(report.nodeid)


@pytest.fixture
def memprof(request: pytest.FixtureRequest) -> Measure:
    """Measure parts of a test: ``with memprof("backward", budget="64 MiB") as scope: ...``; ``scope.peak_bytes``."""
    return Measure(request.node)


class Scope:
    """A measured part of a test; its figures count from its start, and are there when it is closed.

    Attributes:
        name: what it was called.
        report: the recording.
        peak_bytes: the highest point above the start.
        phases: the highest record of each phase, by name, with its own ``peak_bytes``.
        saved: what was kept for backward.
    """

    def __init__(self, name: str, device: str | None) -> None:
        self.name = name
        self._device = device
        self._report: MemoryReport | None = None

    def close(self, report: MemoryReport) -> None:
        """Set the figures."""
        self._report = report

    @property
    def report(self) -> MemoryReport:
        if self._report is None:
            raise RuntimeError(f"memprof({self.name!r}) is still open: its figures are there after the with block")
        return self._report

    @property
    def use(self) -> Use:
        """The figures, as budgets see them."""
        return Use(self.report, self._device)

    @property
    def peak_bytes(self) -> int:
        return self.use.peak_bytes

    @property
    def phases(self) -> Any:
        return self.use.phases

    @property
    def saved(self) -> Any:
        return self.use.saved


class Measure:
    """What the `memprof` fixture is: called, it gives a context manager that measures a `Scope`. Scopes may nest."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    @contextmanager
    def __call__(
        self, name: str = "block", *, budget: int | str | None = None, device: str | None = None
    ) -> Iterator[Scope]:
        """Measure a block of code.

        Args:
            name: what to call it in failures.
            budget: the most bytes that it may use above its start; the test fails at the end of the block if it does.
            device: the device that counts; the one that rises highest by default.
        """
        limits = {} if budget is None else {"peak": parse_size(budget)}
        scope = Scope(name, device)
        profile = memory_profile()
        with _threads(self._item.config.stash[_run].threads), profile:
            yield scope
        scope.close(profile.report([self._item.nodeid]))
        excesses = passed_budgets(scope.use, limits)
        if excesses:
            text = explanation(scope.use, limits, where=f"memprof({name!r})")
            _add_section(self._item, text)
            raise MemoryBudgetFailure(f"{name}: {excesses[0].line()}", False)


def _add_section(item: pytest.Item, text: str) -> None:
    item.add_report_section("call", _SECTION, text)


# -- recording a test --------------------------------------------------------------------------------------------------


def _begin(item: pytest.Item) -> None:
    """Start recording a test that asks for it."""
    if _state in item.stash:
        return
    budget = _budget_of(item)
    leaks = item.get_closest_marker("no_tensor_leaks")
    if budget is None and leaks is None:
        return
    allowed = None
    if leaks is not None:
        allowed = leaks.kwargs.get("allow", leaks.args[0] if leaks.args else 0)
        gc.collect()  # what dies later by a collection must not look as if it had been there before
    state = item.stash[_state] = _TestState(memory_profile(), budget, allowed)
    state.start(item.config.stash[_run].threads)


def _budget_of(item: pytest.Item) -> TestBudget | None:
    marker = item.get_closest_marker("memory_budget")
    if marker is None:
        default = item.config.stash[_run].default
        return None if default is None else TestBudget({"peak": default})
    try:
        return parse_marker(marker.args, marker.kwargs)
    except (TypeError, ValueError) as error:
        raise MemoryBudgetFailure(f"{item.nodeid}: {error}", False) from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Begin here where the marker says ``include="setup"``."""
    if _state in item.stash:  # the test is run again
        del item.stash[_state]
    marker = item.get_closest_marker("memory_budget")
    if marker is not None and marker.kwargs.get("include") == "setup":
        _begin(item)
    try:
        return (yield)
    except BaseException:
        _drop(item)
        raise


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record the test itself, and fail it afterwards if it passed but used too much."""
    _begin(item)
    state = item.stash.get(_state, None)
    if state is None:
        return (yield)
    try:
        result = yield
    except BaseException:
        _drop(item)  # a failing test keeps its own error
        raise
    _check_leaks(item, state)
    state.stop()
    _check_budget(item, state)
    return result


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Call the function once more for each repetition that the marker asks for."""
    state = pyfuncitem.stash.get(_state, None)
    if state is not None and state.budget is not None and state.budget.repeat > 1:
        names = pyfuncitem._fixtureinfo.argnames
        for _ in range(state.budget.repeat - 1):
            pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    return (yield)


def _drop(item: pytest.Item) -> None:
    state = item.stash.get(_state, None)
    if state is not None:
        state.stop()


def _check_leaks(item: pytest.Item, state: _TestState) -> None:
    if state.allowed_leaks is None:
        return
    gc.collect()
    blocks = state.profile.live()
    if len(blocks) > state.allowed_leaks:
        state.stop()
        total = sum(block.nbytes for block in blocks)
        _add_section(item, "\n".join([f"  {len(blocks)} storages outlive the test", *leak_lines(blocks)]))
        allowed = f", {state.allowed_leaks} allowed" if state.allowed_leaks else ""
        raise MemoryBudgetFailure(f"{len(blocks)} tensors outlive the test ({exact(total)}{allowed})", False)


def _check_budget(item: pytest.Item, state: _TestState) -> None:
    budget, run = state.budget, item.config.stash[_run]
    use = Use(state.profile.report([item.nodeid]), None if budget is None else budget.device)
    state.figures = use.figures()
    item.user_properties = [pair for pair in item.user_properties if pair[0] != _PROPERTY]  # of an earlier run
    item.user_properties.append((_PROPERTY, use.peak_bytes))
    if budget is None:
        return
    before = run.baseline(item.nodeid, budget.baseline)
    limits = dict(budget.limits)
    if budget.max_ratio is not None and not run.updates:
        if before is None:
            raise MemoryBudgetFailure(
                f"{item.nodeid} has no baseline in {run.file}; run pytest --memprof-update", False
            )
        limit = int(budget.max_ratio * int(before["peak_bytes"]))
        limits["peak"] = min(limit, limits.get("peak", limit))
    excesses = passed_budgets(use, limits)
    if excesses:
        _fail(item, use, limits, excesses, before)


def _fail(
    item: pytest.Item, use: Use, limits: Mapping[str, int], excesses: list[Excess], before: Mapping[str, Any] | None
) -> None:
    run = item.config.stash[_run]
    file = run.directory / (re.sub(r"[^\w.\-]+", "_", item.nodeid.replace("/", "_").replace("::", "__")) + ".json")
    try:
        run.directory.mkdir(parents=True, exist_ok=True)
        file.write_text(dump(use.report), encoding="utf-8")
        shown: str | None = _relative(file, run.root)
    except OSError:  # a read-only checkout must not hide the figures
        shown = None
    path, line, _ = item.reportinfo()
    has_marker = item.get_closest_marker("memory_budget") is not None
    place = f"{_relative(Path(path), run.root)}:{(line or 0) + 1}"
    where = f"marker on {place}" if has_marker else "memory_budget of the configuration file"
    _add_section(item, explanation(use, limits, where=where, before=before, file=shown))
    raise MemoryBudgetFailure(excesses[0].line(), False)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


# -- reports, also across the processes of xdist -----------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give the report the figures, and our section a title of its own."""
    report = yield
    if report.failed and call.excinfo is not None and isinstance(call.excinfo.value, MemoryBudgetFailure):
        report.longrepr = str(call.excinfo.value)  # one line: the summary and JUnit's message repeat it
    title = f"Captured {_SECTION} call"
    report.sections = [(_SECTION if name == title else name, text) for name, text in report.sections]
    state = item.stash.get(_state, None)
    if report.when == "call" and state is not None and state.figures:
        report.__dict__["memprof"] = state.figures  # plain data: xdist sends it to the controller
    return report


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which tests used most, and what was written."""
    run = config.stash[_run]
    if run.updates:
        count = run.write()
        terminalreporter.write_line(f"memprof: {count} baselines written to {_relative(run.file, run.root)}")
    if not run.summary or not run.measured:
        return
    terminalreporter.section("memory of stowgrad's tensors")
    highest = sorted(run.measured.items(), key=lambda item: (-item[1]["peak_bytes"], item[0]))
    for test, figures in highest[: run.summary]:
        phases = figures["phases"]
        where = max(phases, key=phases.__getitem__, default="")
        saved = f", saved {format_size(figures['saved_bytes'])}" if figures["saved_bytes"] else ""
        terminalreporter.write_line(f"{format_size(figures['peak_bytes']):>11}  {test}   ({where}{saved})")
