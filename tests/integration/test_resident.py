"""The process grows by what the pool says, give or take what Python and BLAS take: in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALLOWANCE = 60_000_000
PROGRAM = """
import json, re, sys
from pathlib import Path
import stowgrad
from stowgrad import memory, optim
sys.path.insert(0, "tests/integration")
from gpt import Sizes, batch, build

def resident(field):
    return int(re.search(field + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

sizes = Sizes(layers=4, width=256, heads=4, batch=8, context=256, vocabulary=2048)
before = resident("VmRSS")
model = build(stowgrad, sizes)
optimizer = optim.AdamW(model.parameters())
tokens, targets = map(stowgrad.from_numpy, batch(sizes))
for _ in range(3):
    optimizer.zero_grad()
    model(tokens, targets).backward()
    optimizer.step()
pool = memory.pool("cpu")
print(json.dumps([resident("VmHWM") - before, pool.peak_bytes(), pool.free_bytes()]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the resident size from /proc")
def test_the_process_grows_by_what_the_pool_counts():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    growth, peak, cached = json.loads(run.stdout)
    assert peak > 150_000_000  # else the allowance would hide anything
    assert growth <= peak + cached + ALLOWANCE
