"""Processes that end, are killed, fork, run out of disk or of file descriptors while values are on disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

STEP = """
    import os, signal, sys, threading
    import numpy as np
    import stowgrad
    from stowgrad.offload import file, save_on_disk

    policy = save_on_disk(sys.argv[1], min_bytes=0, in_memory=True)
    x = stowgrad.ones(300000, requires_grad=True)
    with policy:
        y = x
        for _ in range(20):
            y = y.sin()
"""


def run(program, directory):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(STEP) + textwrap.dedent(program), str(directory)],
        cwd=ROOT, check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "1 / 0", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_process_may_end_while_values_are_written(tmp_path, end):
    done = run(end, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert "Fatal" not in done.stderr
    assert "ignored" not in done.stderr
    assert done.returncode == {"": 0, "sys.exit(3)": 3, "1 / 0": 1}.get(end, -signal.SIGKILL)


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "1 / 0"])
def test_a_process_may_end_while_values_are_copied_to_the_host(tmp_path, end):
    program = """
    import time
    from stowgrad.offload import save_on_cpu, streams

    streams.make_copy = lambda out, array: time.sleep(60)
    x = stowgrad.ones(1000, device="sim:0", requires_grad=True)
    with save_on_cpu():
        z = (x * 2).sin().exp()
    print("copying", flush=True)
    """
    done = run(textwrap.dedent(program) + end, tmp_path)
    assert done.stdout == "copying\n"
    assert "Fatal" not in done.stderr
    assert "ignored" not in done.stderr
    assert done.returncode == {"": 0, "sys.exit(3)": 3, "1 / 0": 1}[end]


def test_values_may_be_saved_while_the_interpreter_ends(tmp_path):
    program = """
    import atexit

    def at_exit():
        with policy:
            z = (x * 2).sin().exp()
        x.grad = None
        z.sum().backward()
        w = stowgrad.ones(300000, requires_grad=True)
        (w * 2).sin().exp().sum().backward()
        print((x.grad == w.grad).all().item(), flush=True)

    atexit.register(at_exit)
    """
    done = run(program, tmp_path)
    assert done.stderr == ""
    assert done.stdout == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_is_forked_while_values_are_written(tmp_path):
    program = """
    import warnings
    warnings.simplefilter("ignore")
    child = os.fork()
    y.sum().backward()
    total = float(x.grad.sum().item())
    with policy:
        z = (x * 2).sin()
    z.sum().backward()
    print("good" if np.isfinite(total) else "bad", flush=True)
    if child:
        assert os.waitpid(child, 0)[1] == 0
    """
    done = run(program, tmp_path)
    assert done.stderr == ""
    assert done.stdout == "good\ngood\n"


def test_a_policy_needs_one_file_descriptor(tmp_path):
    program = """
    import resource
    gc_policies = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    for _ in range(20):
        other = save_on_disk(sys.argv[1], min_bytes=0, in_memory=True)
        with other:
            z = (x * 2).sin().cos()
        gc_policies.append((other, z))
    for other, z in gc_policies:
        z.sum().backward()
    y.sum().backward()
    print(len(os.listdir("/proc/self/fd")) <= 64)
    """
    done = run(program, tmp_path)
    assert done.stderr == ""
    assert done.stdout == "True\n"


SMALL_DISK = """
    import sys
    import stowgrad
    from stowgrad.offload import save_on_disk

    for staging in (0, "1 MiB", "64 MiB"):
        policy = save_on_disk(sys.argv[1], min_bytes=0, in_memory=True, staging=staging)
        x = stowgrad.ones(100000, requires_grad=True)
        plain = stowgrad.ones(100000, requires_grad=True)
        y, z, failed = x, plain, 0
        with policy:
            for _ in range(30):
                try:
                    y = y.sin()
                except OSError as error:
                    assert "No space left" in str(error), error
                    failed += 1
        for _ in range(30 - failed):
            z = z.sin()
        y.sum().backward()
        z.sum().backward()
        assert 0 < failed < 30
        assert (x.grad == plain.grad).all()
        policy.synchronize()
        assert policy.arena.used_bytes() == 0
        del policy
    print("good")
"""


@pytest.mark.skipif(shutil.which("unshare") is None, reason="needs a small file system of its own")
@pytest.mark.parametrize("size", ["3m", "5600k", "6m"])
def test_a_file_system_that_is_full(tmp_path, size):
    (tmp_path / "program.py").write_text(textwrap.dedent(SMALL_DISK))
    (tmp_path / "small").mkdir()
    mount = f"mount -t tmpfs -o size={size} tmpfs '{tmp_path}/small' || exit 77; "
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f"{mount}exec '{sys.executable}' '{tmp_path}/program.py' '{tmp_path}/small'",
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, check=False, capture_output=True, text=True, timeout=120
    )
    if done.returncode == 77 or "Operation not permitted" in done.stderr:
        pytest.skip("may not mount here")
    assert done.stderr == ""
    assert done.stdout == "good\n"
