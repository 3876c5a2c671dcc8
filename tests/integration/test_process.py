"""What only a process of its own shows: import, fork, being killed, the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def command(code: str, *flags: str) -> list[str]:
    return [sys.executable, "-W", "error", *flags, "-c", textwrap.dedent(code)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def run(code: str, *flags: str) -> str:
    """What a fresh process prints; it must end well and say nothing on standard error."""
    done = subprocess.run(
        command(code, *flags), env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


IMPORT = """
    import os, sys, threading

    def tasks():
        return sorted(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else []

    def files():
        numbers = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
        return sorted(number for number in numbers if os.path.exists(f"/proc/self/fd/{number}"))
"""


def test_import_has_no_side_effects():
    out = run(
        IMPORT
        + """
    import logging, random, signal, warnings
    import numpy as np  # its own side effects, such as BLAS's threads, are not ours
    before = tasks(), files(), np.geterr(), signal.getsignal(signal.SIGINT), dict(os.environ)
    filters, handlers = list(warnings.filters), list(logging.getLogger().handlers)
    state, more = random.getstate(), np.random.get_state()[1].tolist()
    import stowgrad
    assert threading.active_count() == 1, threading.enumerate()
    assert before == (tasks(), files(), np.geterr(), signal.getsignal(signal.SIGINT), dict(os.environ))
    assert filters == list(warnings.filters)
    assert handlers == list(logging.getLogger().handlers)
    assert (state, more) == (random.getstate(), np.random.get_state()[1].tolist())
    assert stowgrad.memory.memory_allocated() == 0
    unwanted = {"cupy", "rich", "torch", "hypothesis", "pytest"}
    print(sorted(unwanted & set(sys.modules)))
    """
    )
    assert out == "[]\n"


def test_every_module_can_be_imported_first():
    modules = sorted(
        ".".join(("stowgrad", *path.relative_to(ROOT / "src").with_suffix("").parts)).removesuffix(".__init__")
        for path in (ROOT / "src").rglob("__init__.py")
        if "cupy_" not in path.parts
    )
    for name in modules[1:]:
        run(f"import {name}")


STEP = """
    import os, sys
    import stowgrad
    from stowgrad import nn

    model = nn.Sequential(nn.Linear(200, 200), nn.GELU(), nn.Dropout(0.1), nn.Linear(200, 200))
    x = stowgrad.randn(300, 200)

    def step():
        stowgrad.manual_seed(0)
        model.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss.item(), model[0].weight.grad.numpy().tobytes()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_after_a_step_works():  # spec 7.36, surface 9
    # Python warns of a fork while BLAS's threads exist: they are NumPy's affair, ours end before it.
    out = run(
        STEP
        + """
    import warnings
    warnings.simplefilter("ignore", DeprecationWarning)
    stowgrad.set_num_threads(2)
    expected = step()
    for _ in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0 if step() == expected == step() else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert step() == expected
    print("ok")
    """
    )
    assert out == "ok\n"


def test_an_unfinished_graph_at_exit_is_no_trouble():
    run(
        STEP
        + """
    from stowgrad.checkpoint import checkpoint
    from stowgrad.offload import save_on_disk
    with save_on_disk(min_bytes=0):
        kept = checkpoint(model, x).sum(), model(x)
    step()
    """
    )


def test_a_process_that_is_killed_leaves_nothing_in_the_directory(tmp_path: Path):
    code = (
        STEP
        + f"""
    from stowgrad.checkpoint import checkpoint
    from stowgrad.offload import save_on_disk
    policy = save_on_disk({str(tmp_path)!r}, min_bytes=0)
    with policy:
        kept = checkpoint(model, x), model(x)
    assert policy.statistics().live_offloaded_bytes > 100_000
    print("ready", flush=True)
    while True:
        with policy:
            model(x).sum().backward()
    """
    )
    with subprocess.Popen(command(code), env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        finally:
            process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert os.listdir(tmp_path) == []


def test_a_limit_from_the_environment_holds():
    code = """
        import stowgrad
        try:
            stowgrad.zeros(1 << 20)
        except stowgrad.memory.MemoryBudgetError as error:
            print(error.limit)
    """
    done = subprocess.run(
        command(code),
        env={**environment(), "STOWGRAD_MEMORY_LIMIT": "1 MiB"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"{1 << 20}\n", "")
