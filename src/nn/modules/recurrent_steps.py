"""One time step of each kind of recurrent layer, in ops that keep no more than the gates.

An activation keeps its result, and the products that follow keep the same tensors: what a step keeps for backward are
its gates, its state and what makes the state, each once. The sums before the activations are gone at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ...autograd.tensor import Tensor
from .. import functional as F


class Weights(NamedTuple):
    """The parameters of one direction of a layer; ``None`` for what it doesn't have."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None = None
    bias_hh: Tensor | None = None
    hr: Tensor | None = None


State = tuple[Any, ...]  # of one step: (h,) or (h, c)
Step = Callable[[Tensor, State], State]  # the new state from the inputs' part of the gates and the state

CHUNKS = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}  # how many gates each has


def from_inputs(mode: str, x: Tensor, weights: Weights) -> Tensor:
    """The inputs' part of the gates, for all time steps at once, with all biases that can be added here."""
    bias = weights.bias_ih
    if bias is not None and weights.bias_hh is not None and mode != "GRU":
        bias = bias + weights.bias_hh
    return F.linear(x, weights.ih, bias)


def step_of(mode: str, weights: Weights) -> Step:
    """The function that makes one time step."""
    if mode == "LSTM":
        return _lstm(weights)
    if mode == "GRU":
        return _gru(weights)
    activation = F.tanh if mode == "RNN_TANH" else F.relu

    def step(inputs: Tensor, state: State) -> State:
        return (activation(inputs + F.linear(state[0], weights.hh)),)

    return step


def _lstm(weights: Weights) -> Step:
    size = weights.hh.shape[0] // 4

    def step(inputs: Tensor, state: State) -> State:
        h, c = state
        gates = inputs + F.linear(h, weights.hh)
        add, keep = F.sigmoid(gates[:, : 2 * size]).chunk(2, 1)
        c = keep * c + add * F.tanh(gates[:, 2 * size : 3 * size])
        h = F.sigmoid(gates[:, 3 * size :]) * F.tanh(c)
        return h if weights.hr is None else F.linear(h, weights.hr), c

    return step


def _gru(weights: Weights) -> Step:
    size = weights.hh.shape[0] // 3
    # Two products rather than one: a view of one gate's part would keep that of all three alive.
    first, last = weights.hh[: 2 * size], weights.hh[2 * size :]
    bias = weights.bias_hh
    biases = (None, None) if bias is None else (bias[: 2 * size], bias[2 * size :])

    def step(inputs: Tensor, state: State) -> State:
        (h,) = state
        reset, keep = F.sigmoid(inputs[:, : 2 * size] + F.linear(h, first, biases[0])).chunk(2, 1)
        new = F.tanh(inputs[:, 2 * size :] + reset * F.linear(h, last, biases[1]))
        return (new + keep * (h - new),)

    return step
