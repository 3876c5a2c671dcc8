"""The sums hold over random programs of tensors, and a second run gives the same figures to the byte."""

from __future__ import annotations

import gc
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stowgrad
from stowgrad.checkpoint import checkpoint
from stowgrad.profiler import memory_profile
from stowgrad.profiler.model import Overhead
from stowgrad.saved_tensors import Cast

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["exp", "matmul", "relu_", "keep", "drop", "backward", "cast", "checkpoint"]), st.integers(0, 3)
    ),
    min_size=1,
    max_size=25,
)


def run(program, record):
    """Figures of a program: what is the same in every run of it."""
    gc.collect()
    with memory_profile(record=record) as prof:
        weight = stowgrad.ones(24, 24, requires_grad=True)
        kept, x = [], weight * 0.01
        for action, size in program:
            if action == "exp":
                x = (x * 0.1).exp()
            elif action == "matmul":
                x = x @ weight * 0.01
            elif action == "relu_":
                x = x.clone().relu_()
            elif action == "keep":
                kept.append(x + size)
            elif action == "drop":
                kept = kept[size:]
            elif action == "cast":
                with Cast("bfloat16"):
                    x = x.tanh() * x
            elif action == "checkpoint":
                x = checkpoint(lambda x: (x.tanh() @ weight).sigmoid(), x, use_reentrant=False)
            else:
                x.sum().backward()
                x = weight * 0.01
        del kept, x
    return prof.report()


def figures(report):
    """Without what time and addresses decide."""
    phases = [(p.step, p.phase, p.begin_bytes, p.peak_bytes, p.by_category, p.at.op) for p in report.phases]
    live = sorted((b.nbytes, b.category, b.op, b.held_by) for b in map(anonymous, report.peak.live))
    saved = replace(report.saved, pack_ns=0, unpack_ns=0, rows=())
    rows = [replace(row, pack_ns=0, unpack_ns=0) for row in report.saved.rows]
    return report.peak.nbytes, report.peak.by_category, live, phases, saved, rows, report.hints, report.leaks


def anonymous(block):
    return replace(block, held_by=str(block.held_by))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ACTIONS, st.sampled_from(["peaks", "ledger", "all"]))
def test_categories_and_blocks_add_up_to_the_peak_and_runs_repeat(program, record):
    report = run(program, record)
    peak = report.peak
    assert sum(peak.by_category.values()) == peak.nbytes == sum(block.nbytes for block in peak.live)
    for phase in report.phases:
        assert sum(phase.by_category.values()) == phase.peak_bytes >= phase.begin_bytes
    assert isinstance(report.overhead, Overhead)
    assert figures(run(program, record)) == figures(report)
