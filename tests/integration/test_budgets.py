"""Memory budgets of a training step of the GPT, held by the pytest plugin that users have."""

from __future__ import annotations

import contextlib

import pytest

import stowgrad
from stowgrad.checkpoint import checkpoint
from stowgrad.offload import save_on_disk
from stowgrad.optim import AdamW
from stowgrad.saved_tensors import Cast

from .gpt import Sizes, batch, build

SIZES = Sizes(layers=3, width=64, heads=2, batch=4, context=64, vocabulary=256)


def train(policy=contextlib.nullcontext, region=None, steps=2):
    model = build(stowgrad, SIZES, region)
    optimizer = AdamW(model.parameters())
    tokens, targets = (stowgrad.tensor(part) for part in batch(SIZES))
    for _ in range(steps):
        optimizer.zero_grad()
        with policy():
            loss = model(tokens, targets)
        loss.backward()
        optimizer.step()


@pytest.mark.no_tensor_leaks
@pytest.mark.memory_budget("7 MiB", saved="4 MiB", optimizer="5 MiB")
def test_a_plain_step():
    train()


@pytest.mark.no_tensor_leaks
@pytest.mark.memory_budget("5 MiB", saved="1 MiB")
def test_a_checkpointed_step():
    train(region=checkpoint)


@pytest.mark.no_tensor_leaks
@pytest.mark.memory_budget("7 MiB", saved="256 KiB")
def test_a_step_on_disk():
    train(lambda: save_on_disk(min_bytes=0))


def test_half_the_bits_are_half_the_bytes(memprof):
    with memprof("plain") as plain:
        train()
    with memprof("bfloat16") as half:
        train(lambda: Cast("bfloat16", min_bytes=0))
    assert half.saved.raw_bytes == plain.saved.raw_bytes
    assert half.saved.resident_bytes < 0.6 * plain.saved.resident_bytes
    assert half.phases["forward"].peak_bytes < 0.8 * plain.phases["forward"].peak_bytes
