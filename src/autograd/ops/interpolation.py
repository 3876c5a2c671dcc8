"""Linear maps along the last dimensions: interpolation, and pooling by means. Nothing but sizes is kept."""

from __future__ import annotations

from typing import Any

from ..dispatch import Op
from ..record import Do, Spec
from .axis_maps import Rule, taps_of


class Resample(Op):
    """A map along each of the last dimensions, or the reverse of one; called with a rule for each, None for none."""

    def infer(self, x: Any, rules: tuple[Rule | None, ...], backwards: bool) -> tuple[Spec, ...]:
        lead = len(x.shape) - len(rules)
        sizes = list(x.shape)
        for axis, rule in enumerate(rules):
            if rule is not None:
                sizes[lead + axis] = rule.size if backwards else rule.results
        return ((tuple(sizes), x.dtype),)

    def kernel(self, k: Any, x: Any, rules: tuple[Rule | None, ...], backwards: bool, out: Any) -> None:
        k.resample(x, out, taps=[None if rule is None else taps_of(rule, backwards) for rule in rules])

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        rules, backwards = node.op_attrs
        return (do(self, grads[0], rules, not backwards),)


class AvgPool(Resample):
    """Means over windows at equal distances."""

    name = "avg_pool"
    flat = True


class AdaptiveAvgPool(Resample):
    """Means over a given number of windows."""

    name = "adaptive_avg_pool"
    flat = True


class Upsample(Resample):
    """Values between elements, by one of several rules."""

    name = "upsample"


avg_pool = AvgPool()
adaptive_avg_pool = AdaptiveAvgPool()
upsample = Upsample()
