"""Connectionist temporal classification, against all alignments one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from stowgrad.kernels import numpy_ as kernels

from .support import Array


def collapsed(path: tuple[int, ...], blank: int) -> tuple[int, ...]:
    """A path without repetitions and blanks."""
    return tuple(label for label, _ in itertools.groupby(path) if label != blank)


def by_paths(log_probs: Array, target: tuple[int, ...], blank: int) -> tuple[float, Array]:
    """The loss of one sample, (T, C), and its gradient, the soft-max's derivative included."""
    total, shares = 0.0, np.zeros_like(log_probs)
    times = np.arange(len(log_probs))
    for path in itertools.product(range(log_probs.shape[1]), repeat=len(log_probs)):
        if collapsed(path, blank) == target:
            probability = np.exp(log_probs[times, path].sum())
            total += probability
            shares[times, path] += probability
    if not total:
        return np.inf, np.full_like(log_probs, np.nan)
    return -np.log(total), np.exp(log_probs) - shares / total


SAMPLES = [((1, 2), 4), ((1, 1), 3), ((), 4), ((2,), 1), ((2, 2), 2), ((0, 1), 0), ((), 0)]


@pytest.mark.parametrize("blank", [0, 3])
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_loss_and_gradient(zero_infinity: bool, blank: int, rng: np.random.Generator) -> None:
    targets = [tuple((label + (blank == 0)) % 4 for label in labels) for labels, _ in SAMPLES]
    inputs, outputs = np.array([n for _, n in SAMPLES]), np.array([len(labels) for labels, _ in SAMPLES])
    rows = np.array([(*labels, -1, -1)[:2] for labels in targets])
    logits = rng.standard_normal((4, len(SAMPLES), 4))
    log_probs = logits - np.log(np.exp(logits).sum(2, keepdims=True))
    losses, found, grad = np.empty(len(SAMPLES)), np.empty_like(logits), rng.standard_normal(len(SAMPLES))
    kernels.ctc_loss(log_probs, rows, inputs, outputs, losses, blank=blank)
    arrays = (grad, log_probs, rows, inputs, outputs, losses, found)
    kernels.ctc_loss_backward(*arrays, blank=blank, zero_infinity=zero_infinity)
    for number, (labels, length) in enumerate(zip(targets, inputs, strict=True)):
        loss, gradient = by_paths(log_probs[:length, number], labels, blank)
        np.testing.assert_allclose(losses[number], loss, atol=1e-12)
        if loss == np.inf and zero_infinity:
            gradient = np.zeros_like(gradient)
        np.testing.assert_allclose(found[:length, number], grad[number] * gradient, atol=1e-12)
        assert (found[length:, number] == 0).all()
