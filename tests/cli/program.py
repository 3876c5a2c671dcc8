"""The ``memprof`` command in a process of its own, and a program for it to run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Two steps with 5,000,000 bytes in forward and 6,000,000 more in backward.
SCRIPT = """\
import sys
import numpy as np
from stowgrad.memory import events, pool

def lease(nbytes):
    return pool("cpu").lease((nbytes,), np.dtype("uint8"))

for step in range(2):
    with events.span("phase", "forward"):
        a = lease(5_000_000)
    with events.span("phase", "backward"), events.span("node", "TanhBackward0"):
        b = lease(6_000_000)
    with events.span("phase", "optimizer"):
        del a, b
"""


def command(*arguments, cwd, **options):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100", "PYTHONWARNINGS": "error"}
    # Ctrl-C works as in a terminal, also where the shell that started the tests ignores it.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " from stowgrad.cli.memprof import main; sys.exit(main())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        **options,
    )


def run(*arguments, cwd, text=None):
    process = command(*arguments, cwd=cwd)
    out, err = process.communicate(text, timeout=60)
    return process.returncode, out, err


def refused(*arguments, cwd, message):
    code, out, err = run(*arguments, cwd=cwd)
    assert (code, out) == (2, ""), err
    assert message in err
    assert "Traceback" not in err
