"""Checks of arguments that the families share."""

from __future__ import annotations

from typing import Any

from ...autograd.tensor import Tensor

_REDUCTIONS = ("none", "mean", "sum")


def check_probability(p: float) -> None:
    """Raise ``ValueError`` unless a dropout probability is between 0 and 1."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def check_reduction(reduction: str) -> None:
    """Raise ``ValueError`` for a reduction that does not exist."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction; expected one of {', '.join(_REDUCTIONS)}")


def check_tensors(name: str, **tensors: Any) -> None:
    """Raise ``TypeError`` for an argument that is no tensor."""
    for argument, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument {argument!r} must be Tensor, not {type(value).__name__}")
