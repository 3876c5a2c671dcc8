"""Losses where PyTorch has no samples: combinations of arguments, and what it computes otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from .op_cases import FLOATS, Case, signed, smooth

Call = Callable[..., Any]

REDUCTIONS = ("mean", "sum", "none")


def _loss(name: str, **keywords: Any) -> Call:
    return lambda lib, *tensors: getattr(lib.nn.functional, name)(*tensors, **keywords)


def _of_classes(name: str, target: Any, weight: Any = None, **keywords: Any) -> Call:
    """A loss of logits (or log-probabilities) with class numbers and weights that take no part in derivatives."""

    def call(lib: Any, logits: Any) -> Any:
        more = {} if weight is None else {"weight": lib.tensor(weight).to(logits.dtype)}
        return getattr(lib.nn.functional, name)(logits, lib.tensor(target), **more, **keywords)

    return call


_WEIGHT = np.array([0.5, 2.0, 1.0, 0.25])
_TARGETS = {
    (6, 4): np.array([0, 3, -100, 2, 1, 3]),
    (4,): np.array(2),
    (2, 4, 3): np.array([[0, 3, -100], [2, 1, 3]]),
    (1, 4, 20, 17): np.arange(340).reshape(1, 20, 17) % 4,
}


def _classes() -> list[Case]:
    cases = []
    for (shape, target), reduction in itertools.product(_TARGETS.items(), REDUCTIONS):
        for weight, smoothing in itertools.product((None, _WEIGHT), (0.0, 0.3)):
            label = f"{shape}, {reduction}{', weight' if weight is not None else ''}, {smoothing}"
            options = {"reduction": reduction, "label_smoothing": smoothing}
            cases.append(
                Case(
                    "cross_entropy",
                    label,
                    _of_classes("cross_entropy", target, weight, **options),
                    (signed(*shape),),
                    FLOATS,
                )
            )
        if len(shape) < 4:  # there PyTorch refuses some layouts
            call = _of_classes("nll_loss", target, _WEIGHT, reduction=reduction)
            cases.append(Case("nll_loss", f"{shape}, {reduction}", call, (signed(*shape),), FLOATS))
    ignored = np.full(6, -100)
    for reduction in REDUCTIONS:
        for name in ("cross_entropy", "nll_loss"):
            call = _of_classes(name, ignored, reduction=reduction)
            cases.append(Case(name, f"nothing counts, {reduction}", call, (signed(6, 4),), FLOATS))
    return cases


def _probabilities() -> list[Case]:
    cases = []
    for shape, reduction, smoothing in itertools.product(
        [(6, 4), (4,), (2, 4, 3), (1, 4, 20, 17)], REDUCTIONS, (0.0, 0.3)
    ):
        call = _loss("cross_entropy", reduction=reduction, label_smoothing=smoothing)
        inputs = (signed(*shape), smooth(*shape))
        cases.append(Case("cross_entropy", f"probabilities {shape}, {reduction}, {smoothing}", call, inputs, FLOATS))
    return cases


def _linear(reduction: str, weight: Any, smoothing: float, z_loss: float) -> Call:
    """The loss of a linear layer; PyTorch's from all logits."""

    def call(lib: Any, x: Any, table: Any, bias: Any) -> Any:
        F, target = lib.nn.functional, lib.tensor(_TARGETS[6, 4])
        more = {} if weight is None else {"weight": lib.tensor(weight).to(x.dtype)}
        options = {"reduction": reduction, "label_smoothing": smoothing, **more}
        if hasattr(lib, "memory"):
            return F.linear_cross_entropy(x, table, target, linear_bias=bias, z_loss=z_loss, **options)
        logits = F.linear(x, table, bias)
        counted = target != -100
        penalties = z_loss * logits.logsumexp(1).square() * counted
        if reduction == "mean":
            share = counted.sum() if weight is None else more["weight"][target[counted]].sum()
            penalties = penalties.sum() / share
        elif reduction == "sum":
            penalties = penalties.sum()
        return F.cross_entropy(logits, target, **options) + penalties

    return call


def _linear_layers() -> list[Case]:
    return [
        Case(
            "linear_cross_entropy",
            f"{reduction}{', weight' if weight is not None else ''}, {smoothing}, {z_loss}",
            _linear(reduction, weight, smoothing, z_loss),
            (signed(6, 5), signed(4, 5), signed(4)),
            FLOATS,
        )
        for reduction in REDUCTIONS
        for weight in (None, _WEIGHT)
        for smoothing, z_loss in [(0.2, 0.0), (0.0, 0.1), (0.2, 0.1)]
    ]


_PAIRS: dict[str, dict[str, Any]] = {"mse_loss": {}, "l1_loss": {}, "huber_loss": {"delta": 0.4}}


def _elements() -> list[Case]:
    cases = []
    for (name, options), reduction in itertools.product(_PAIRS.items(), REDUCTIONS):

        def weighted(
            lib: Any, x: Any, t: Any, w: Any, name: str = name, options: Any = options, reduction: str = reduction
        ) -> Any:
            return getattr(lib.nn.functional, name)(x, t, weight=w, reduction=reduction, **options)

        cases.append(Case(name, f"weight, {reduction}", weighted, (signed(3, 4), signed(3, 4), smooth(3, 4)), FLOATS))
        call = _loss(name, reduction=reduction, **options)
        cases.append(Case(name, f"broadcast, {reduction}", call, (signed(3, 4), signed(4)), FLOATS))
        cases.append(Case(name, f"empty, {reduction}", call, (signed(0, 4), signed(0, 4)), FLOATS))
        cases.append(Case(name, f"large, {reduction}", call, (signed(60, 35), signed(60, 35)), FLOATS))
    inside = smooth(3, 4) / 3
    wrong = [
        Case("smooth_l1_loss", "no beta", _loss("smooth_l1_loss", beta=0.0), (signed(3), signed(3)), FLOATS),
        Case("smooth_l1_loss", "a negative beta", _loss("smooth_l1_loss", beta=-1.0), (signed(3), signed(3)), FLOATS),
        Case("huber_loss", "no delta", _loss("huber_loss", delta=0.0), (signed(3), signed(3)), FLOATS),
        Case("mse_loss", "a wrong reduction", _loss("mse_loss", reduction="most"), (signed(3), signed(3)), FLOATS),
        Case("binary_cross_entropy", "no probability", _loss("binary_cross_entropy"), (signed(3), smooth(3)), FLOATS),
        Case("binary_cross_entropy", "another shape", _loss("binary_cross_entropy"), (inside, smooth(4)), FLOATS),
        Case("kl_div", "batch", _loss("kl_div", reduction="batchmean"), (signed(3, 4), smooth(3, 4)), FLOATS),
        Case("kl_div", "broadcast", _loss("kl_div", reduction="sum"), (signed(3, 4), smooth(4)), FLOATS),
        Case(
            "cross_entropy",
            "a wrong smoothing",
            _of_classes("cross_entropy", _TARGETS[6, 4], label_smoothing=2.0),
            (signed(6, 4),),
            FLOATS,
        ),
        Case("cross_entropy", "too few targets", _of_classes("cross_entropy", np.arange(3)), (signed(6, 4),), FLOATS),
        Case("cross_entropy", "no class", _of_classes("cross_entropy", np.array([0, 4])), (signed(2, 4),), FLOATS),
        Case(
            "nll_loss",
            "a weight of another size",
            _of_classes("nll_loss", _TARGETS[6, 4], _WEIGHT[1:]),
            (signed(6, 4),),
            FLOATS,
        ),
    ]
    return cases + wrong


CASES = [*_classes(), *_probabilities(), *_linear_layers(), *_elements()]
