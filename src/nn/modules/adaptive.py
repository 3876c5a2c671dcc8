"""Softmax over very many classes, most of them rare."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...autograd import functions
from ...autograd.creation import zeros
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module


class ASMoutput(NamedTuple):
    """What `AdaptiveLogSoftmaxWithLoss` returns.

    Attributes:
        output: the logarithm of each target's probability.
        loss: minus their mean.
    """

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes in clusters: the first by themselves, the others behind smaller and smaller layers (Grave et al., 2017).

    Args:
        in_features: size of the input.
        n_classes: how many classes there are, the most frequent ones first.
        cutoffs: where clusters end.
        div_value: by how much each cluster's layer is narrower than the one before.
        head_bias: whether the first layer has a bias.
        device, dtype: of the parameters.

    Raises:
        ValueError: unless the cutoffs are numbers between 1 and ``n_classes - 1`` in increasing order.

    Shapes: input ``(N, in_features)`` or ``(in_features,)``, target ``(N,)`` or ``()``.
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if ends != sorted(set(ends)) or min(ends) <= 0 or max(ends) >= n_classes or any(int(c) != c for c in ends):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each"
                f" value is between 1 and n_classes-1, got {ends} for {n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*ends, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = ends[0]
        self.n_clusters = len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for number, (low, high) in enumerate(itertools.pairwise(self.cutoffs), 1):
            width = int(in_features // div_value**number)
            first = Linear(in_features, width, False, device, dtype)
            self.tail.append(Sequential(first, Linear(width, high - low, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> ASMoutput:
        dims = target_.dim()
        if dims > 1:
            raise RuntimeError(f"0D or 1D target tensor expected, multi-target not supported, got {dims}D")
        if input_.dim() != dims + 1:
            raise RuntimeError(
                f"{dims}D target tensor expects {dims + 1}D input tensors, but found inputs with size"
                f" {list(input_.shape)}"
            )
        if dims and input_.shape[0] != target_.shape[0]:
            raise RuntimeError(
                "Input and target should have the same size in the batch dimension, got"
                f" {input_.shape[0]} and {target_.shape[0]}"
            )
        input, target = (input_, target_) if dims else (input_.unsqueeze(0), target_.unsqueeze(0))
        if target.numel() and not bool(((target >= 0) & (target < self.n_classes)).all()):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()},"
                f" {target.max().item()}] were found."
            )
        output, chosen = zeros(target.shape, dtype=input.dtype, device=input.device), target
        for number, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            inside = (target >= low) & (target < high)
            rows = inside.nonzero().squeeze(1)
            if rows.numel():
                logits = self.tail[number](input.index_select(0, rows))
                losses = F.cross_entropy(logits, target.index_select(0, rows) - low, reduction="none")
                output = output.index_copy(0, rows, -losses)
                chosen = chosen.masked_fill(inside, self.shortlist_size + number)
        output = output - F.cross_entropy(self.head(input), chosen, reduction="none")
        loss = -output.mean()
        return ASMoutput(output if dims else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """The logarithms of the probabilities of all classes, ``(N, n_classes)``."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for number, layers in enumerate(self.tail):
            place = self.shortlist_size + number
            parts.append(F.log_softmax(layers(input), 1) + head[:, place : place + 1])
        result: Tensor = functions.cat(parts, 1)
        return result

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row, ``(N,)``."""
        head = self.head(input)
        result: Tensor = head.argmax(1)
        rare = result >= self.shortlist_size
        rows = rare.nonzero().squeeze(1)
        if rows.numel():
            result = result.index_copy(0, rows, self.log_prob(input.index_select(0, rows)).argmax(1))
        return result
