"""Losses of classes."""

from __future__ import annotations

import numpy as np

from stowgrad.autograd.ops import loss, loss_linear, loss_nll, loss_soft

from .case import Case, rand

_TARGETS = np.array([0, 3, -100, 2, 4])
_ALL_COUNT = np.array([0, 3, 5, 2, 4])
_OF_PLACES = np.array([[0, 3, -100, 5], [2, 4, 4, 1]])
# Integers take no part in the check of derivatives; the op casts them.
_FACTORS = np.array([1, 3, 2, 1, 2, 4])
_LINEAR = (rand(5, 4), rand(6, 4), rand(6), _TARGETS)


def _smooth(*args):
    return loss.cross_entropy(*args, ignore_index=4, label_smoothing=0.3)


CASES = [
    Case("cross_entropy", loss.cross_entropy, (rand(5, 6), _TARGETS)),
    Case("cross_entropy", loss.cross_entropy, (rand(5, 6), _ALL_COUNT), "all count"),
    Case("cross_entropy", lambda *args: loss.cross_entropy(*args, scale=0.2), (rand(5, 6), _ALL_COUNT), "their mean"),
    Case("cross_entropy", loss.cross_entropy, (rand(5, 6), _TARGETS, _FACTORS), "weights"),
    Case("cross_entropy", _smooth, (rand(5, 6), abs(_TARGETS) % 6), "smoothing"),
    Case("cross_entropy", _smooth, (rand(5, 6), abs(_TARGETS) % 6, _FACTORS), "smoothing, weights"),
    Case("cross_entropy", loss.cross_entropy, (rand(2, 6, 4), _OF_PLACES, _FACTORS), "places"),
    Case("cross_entropy", lambda *args: loss.cross_entropy(*args, scale=0.25), (rand(5, 6), _TARGETS), "scaled sum"),
    Case("nll_loss", loss_nll.nll_loss, (rand(5, 6), _TARGETS)),
    Case("nll_loss", loss_nll.nll_loss, (rand(5, 6), _ALL_COUNT), "all count"),
    Case("nll_loss", lambda *args: loss_nll.nll_loss(*args, scale=0.2), (rand(5, 6), _ALL_COUNT), "their mean"),
    Case("nll_loss", loss_nll.nll_loss, (rand(2, 6, 4), _OF_PLACES, _FACTORS), "places"),
    Case("nll_loss", lambda *args: loss_nll.nll_loss(*args, scale=0.25), (rand(5, 6), _TARGETS), "scaled sum"),
    Case(
        "nll_loss_backward",
        lambda grad, t, w: loss_nll.nll_loss_backward(grad, t, loss.class_weight("", w, grad), (2, 6, 4), -100, None),
        (rand(2, 4), _OF_PLACES, _FACTORS),
    ),
    Case(
        "nll_loss_backward",
        lambda grad, t: loss_nll.nll_loss_backward(grad, t, None, (5, 6), -100, 0.25),
        (rand(), _TARGETS),
        "scaled sum",
    ),
    Case(
        "nll_loss_backward",
        lambda grad, t: loss_nll.nll_loss_backward(grad, t, None, (5, 6), -100, None),
        (rand(5), _ALL_COUNT),
        "all count",
    ),
    Case("soft_cross_entropy", loss_soft.soft_cross_entropy, (rand(5, 6), rand(5, 6))),
    Case("soft_cross_entropy", loss_soft.soft_cross_entropy, (rand(2, 6, 4), rand(2, 6, 4), _FACTORS), "places"),
    Case(
        "soft_cross_entropy",
        lambda *args: loss_soft.soft_cross_entropy(*args, label_smoothing=0.3),
        (rand(5, 6), rand(5, 6), _FACTORS),
        "smoothing",
    ),
    Case("linear_cross_entropy", loss_linear.linear_cross_entropy, _LINEAR, "bias"),
    Case(
        "linear_cross_entropy",
        lambda x, w, t: loss_linear.linear_cross_entropy(x, w, None, t),
        (rand(5, 4), rand(6, 4), _TARGETS),
        "no bias",
    ),
    Case(
        "linear_cross_entropy",
        lambda *args: loss_linear.linear_cross_entropy(*args, label_smoothing=0.2, z_loss=0.1),
        (*_LINEAR, _FACTORS),
        "all terms",
    ),
    Case(
        "linear_cross_entropy_loss",
        lambda x, w, b, t: loss_linear.linear_cross_entropy_loss(x, w, b, t, None, 0.25),
        _LINEAR,
        "bias",
    ),
    Case(
        "linear_cross_entropy_loss",
        lambda x, w, t: loss_linear.linear_cross_entropy_loss(x, w, None, t, None, 1.0),
        (rand(5, 4), rand(6, 4), _TARGETS),
        "no bias",
    ),
    Case(
        "linear_cross_entropy_loss",
        lambda *args: loss_linear.linear_cross_entropy_loss(*args, 0.5, label_smoothing=0.2, z_loss=0.1),
        (*_LINEAR, _FACTORS),
        "all terms",
    ),
]
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {"cross_entropy_backward", "linear_cross_entropy_backward", "soft_cross_entropy_backward"}
