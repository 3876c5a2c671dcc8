"""The profiler beside a real training loop, and beside the pool's own peaks."""

from __future__ import annotations

import gc

import stowgrad
from stowgrad import nn, optim
from stowgrad.memory import events, pool
from stowgrad.profiler import memory_profile


class Scale(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(stowgrad.ones(width, width) / width)

    def forward(self, x):
        return (x @ self.weight).tanh()


class Model(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.layers = nn.ModuleList([Scale(width) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Watcher(events.Observer):
    """Sums over all live storages at every event: slow, and simple enough to be right."""

    def __init__(self):
        self.live = {storage.id: storage.nbytes for storage in pool("cpu").live()}
        self.phases = ["outside"]
        self.peaks = {}
        events.add_observer(self)

    def look(self):
        key = self.phases[-1]
        self.peaks[key] = max(self.peaks.get(key, 0), sum(self.live.values()))

    def allocated(self, storage):
        if str(storage.device) == "cpu":
            self.live[storage.id] = storage.nbytes
            self.look()

    def freed(self, storage):
        self.live.pop(storage.id, None)

    def begin(self, kind, name, subject=None):
        if kind == "phase":
            self.phases.append(name)
            self.look()

    def end(self, kind, name):
        if kind == "phase":
            self.phases.pop()
            self.look()


def train(model, optimizer, steps=3):
    for _ in range(steps):
        x = stowgrad.ones(64, 96)
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def test_peaks_of_a_training_loop_are_those_of_a_simple_watcher():
    model = Model()
    optimizer = optim.AdamW(model.parameters())
    gc.collect()  # what other tests left must not die between the starts of the three that watch
    watcher = Watcher()
    try:
        with memory_profile() as prof, pool("cpu").peak_scope() as scope:
            train(model, optimizer)
    finally:
        events.remove_observer(watcher)
    report = prof.report()
    assert report.steps == 3
    assert report.peak.nbytes == scope.peak_bytes == max(watcher.peaks.values())
    for phase in ("backward", "optimizer"):
        assert report.peak_bytes(phase, "cpu") == watcher.peaks[phase]
    assert sum(block.nbytes for block in report.peak.live) == report.peak.nbytes


def test_what_a_report_names():
    gc.collect()
    model = Model()
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with memory_profile() as prof:
        train(model, optimizer)
    report = prof.report()
    assert {"forward", "backward", "optimizer"} <= {phase.phase for phase in report.phases}
    parameters = {block.name for block in report.peak.live if block.category == "parameter"}
    assert {"layers.0.weight", "layers.1.weight", "layers.2.weight"} <= parameters
    rows = {(row.module, row.op): row.count for row in report.saved.rows}
    assert rows["layers.1", "tanh"] == 1
    assert all(block.site is None or "profiler" in block.site.file for block in report.peak.live)
    assert report.boundary.saved_resident_bytes <= report.boundary.saved_raw_bytes
    assert report.boundary.forward_end_bytes >= report.boundary.saved_resident_bytes
    files = {phase.at.site.file for phase in report.phases if phase.at.site is not None}
    assert files == {"tests/profiler/test_end_to_end.py"}


def test_two_runs_give_the_same_figures_to_the_byte():
    def once():
        gc.collect()
        model = Model()
        optimizer = optim.AdamW(model.parameters())
        before = pool("cpu").used_bytes()
        with memory_profile() as prof:
            train(model, optimizer)
        report = prof.report()
        figures = [(p.begin_bytes - before, p.peak_bytes - before) for p in report.phases]
        return figures, [(p.step, p.phase, p.at.op, p.at.module, p.at.site) for p in report.phases]

    assert once() == once()


def test_watching_changes_no_figure():
    gc.collect()
    model = Model()
    optimizer = optim.AdamW(model.parameters())
    train(model, optimizer, 1)
    with pool("cpu").peak_scope() as unwatched:
        train(model, optimizer, 1)
    with memory_profile(), pool("cpu").peak_scope() as watched:
        train(model, optimizer, 1)
    assert (unwatched.begin_bytes, unwatched.peak_bytes) == (watched.begin_bytes, watched.peak_bytes)
