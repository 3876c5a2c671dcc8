"""Hints: the figure that a hint promises is the one that the mended run has."""

from __future__ import annotations

import gc

import pytest

import stowgrad
from stowgrad import nn, optim
from stowgrad.checkpoint import checkpoint
from stowgrad.nn import functional as F
from stowgrad.profiler import memory_profile
from stowgrad.saved_tensors import Cast


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.rise = nn.Linear(width, 4 * width)
        self.fall = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.fall(F.gelu(self.rise(self.norm(x))))


class Model(nn.Module):
    def __init__(self, width=32, words=512, layers=2, checkpoints=False):
        super().__init__()
        self.checkpoints = checkpoints
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.head = nn.Linear(width, words)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
        return self.head(x)


def batch():
    return stowgrad.arange(0, 256) % 512


def train(steps=3, *, frees=False, early=True, **options):
    """Train, and return the profile; ``frees`` lets go of the logits before backward."""
    stowgrad.manual_seed(0)
    gc.collect()
    model = Model(**options)
    optimizer = optim.AdamW(model.parameters())
    with memory_profile() as prof:
        for _ in range(steps):
            x = batch()
            if early:
                optimizer.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits.reshape(-1, 512), x)
            if not early:
                optimizer.zero_grad()
            if frees:
                del logits
            loss.backward()
            optimizer.step()
    return prof.report()


def hint(report, code):
    found = [hint for hint in report.hints if hint.code == code]
    assert found, [hint.text for hint in report.hints]
    return found[0]


def test_logits_that_a_variable_keeps_are_found_and_the_mended_run_has_the_figure():
    report = train()
    found = hint(report, "free-variable")
    assert "logits" in found.text
    assert "local variable 'logits' (tests/profiler/test_hints.py:" in found.text
    assert found.peak_before_bytes == report.peak.nbytes
    assert found.peak_after_bytes == train(frees=True).peak.nbytes < report.peak.nbytes
    assert found.is_exact
    holders = [holder for block in report.peak.live for holder in block.held_by]
    assert "local variable 'logits'" in [holder.what for holder in holders]


def test_a_planted_regression_fails_a_budget_and_a_diff():
    from stowgrad.profiler.budget_tests import Use, explanation
    from stowgrad.profiler.diff import compare, failures, parse_growth

    report, mended = train(), train(frees=True)
    text = explanation(Use(report), {"backward": mended.peak_bytes("backward")}, where="here")
    assert "held by local variable 'logits'" in text
    assert "del logits before backward()" in text
    assert failures(compare(mended, report), parse_growth("2%"))
    assert not failures(compare(report, mended), parse_growth("2%"))


def test_a_mended_run_gets_no_such_hint():
    assert not [hint for hint in train(frees=True).hints if "logits" in hint.text]


def late_zero_grad(late):
    gc.collect()
    weight = stowgrad.ones(1 << 16, requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.1)
    with memory_profile() as prof:
        for _ in range(3):
            if not late:
                optimizer.zero_grad()
            loss = (weight * 2).sum()
            with stowgrad.no_grad():
                burst = (weight.exp() + weight.sin()) * (weight.cos() + weight.tanh())
                del burst
            if late:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return prof.report()


def test_gradients_that_live_on_in_forward_are_found():
    report = late_zero_grad(late=True)
    assert report.peak.phase == "forward"
    found = hint(report, "free-gradients")
    assert found.peak_after_bytes == late_zero_grad(late=False).peak.nbytes < report.peak.nbytes


def left_over(mended):
    gc.collect()
    weight = stowgrad.ones(1 << 16, requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.1)
    with memory_profile() as prof:
        for _ in range(3):
            with stowgrad.no_grad():
                burst = (weight.exp() + weight.sin()) * (weight.cos() + weight.tanh())
                del burst
            out = weight * 2
            loss = out.sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if mended:
                del out
    return prof.report()


def test_what_a_variable_keeps_from_the_step_before_is_found():
    report = left_over(mended=False)
    found = hint(report, "free-variable")
    assert "out (256.0 KiB) is left over from the step before" in found.text
    assert found.peak_after_bytes == left_over(mended=True).peak.nbytes < report.peak.nbytes


def steps_of_equal_height(mended):
    """The optimizer's peak is as high in every step; what is left over shows from the second step on."""
    gc.collect()
    weight = stowgrad.ones(1 << 14, requires_grad=True)
    optimizer = optim.SGD([weight], lr=0.1, momentum=0.9)
    with memory_profile() as prof:
        for _ in range(3):
            x = stowgrad.full((1 << 14,), 0.5)
            out = (weight * 2).tanh()
            out = (weight - out).relu()
            out = weight[::2].repeat(2)
            loss = out.sum()
            if mended:
                del x
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return prof.report()


def test_of_equal_steps_the_last_one_is_replayed():
    report = steps_of_equal_height(mended=False)
    assert (report.peak.step, report.peak.phase) == (2, "optimizer")
    assert [record.peak_bytes for record in report.phases if record.phase == "optimizer"] == 3 * [report.peak.nbytes]
    found = next(hint for hint in report.hints if "del x" in hint.text)
    assert found.peak_after_bytes == steps_of_equal_height(mended=True).peak.nbytes < report.peak.nbytes


def test_gradients_that_wait_for_the_optimizer_are_found():
    options = dict(width=128, words=512, layers=4, frees=True)
    found = hint(train(**options), "step-in-backward")
    assert "register_post_accumulate_grad_hook" in found.text
    assert found.peak_after_bytes < found.peak_before_bytes


def test_checkpointing_is_close_to_what_is_promised():
    options = dict(width=64, words=512, layers=6, frees=True)
    report = train(**options)
    found = hint(report, "checkpoint")
    assert "blocks.*" in found.text
    real = train(checkpoints=True, **options).peak.nbytes
    assert found.peak_after_bytes == pytest.approx(real, rel=0.06)
    assert not found.is_exact


def test_saved_values_in_bfloat16_are_close_to_what_is_promised():
    options = dict(width=64, words=512, layers=6, frees=True)
    found = hint(train(**options), "bfloat16")
    with Cast("bfloat16"):
        real = train(**options).peak.nbytes
    assert found.peak_after_bytes == pytest.approx(real, rel=0.03)


def test_hints_are_the_same_in_every_run():
    assert train().hints == train().hints


def test_peaks_alone_give_no_hints():
    with memory_profile(record="peaks") as prof:
        x = stowgrad.ones(1000, requires_grad=True)
        x.exp().sum().backward()
    assert prof.report().hints == ()


def test_a_log_that_is_too_long_is_given_up_and_counted():
    with memory_profile(max_events=10) as prof:
        kept = [stowgrad.ones(1000) for _ in range(50)]
    report = prof.report()
    assert report.hints == ()
    assert report.overhead.dropped_events >= 50
    assert report.peak_bytes() >= 50 * 4000
    del kept
