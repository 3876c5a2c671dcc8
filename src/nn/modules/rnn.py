"""Recurrent layers."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ...autograd import functions
from ...autograd.creation import zeros
from ...autograd.frames import user_level
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import functional as F
from .. import init
from .making import new_parameter
from .module import Module
from .recurrent_steps import CHUNKS, State, Weights, from_inputs, step_of


class RNNBase(Module):
    """What the recurrent layers share.

    Args:
        mode: ``"RNN_TANH"``, ``"RNN_RELU"``, ``"LSTM"`` or ``"GRU"``.
        input_size: size of the input's last dimension.
        hidden_size: size of the state.
        num_layers: how many layers lie above each other.
        bias: whether there are biases.
        batch_first: whether the batch comes before the time, in inputs and outputs.
        dropout: how much of each layer's output but the last one's is dropped in training.
        bidirectional: whether there is a second direction, from the end to the beginning.
        proj_size: of an LSTM: the size that its output is projected to; 0 for none.
        device, dtype: of the parameters.

    Raises:
        ValueError: for sizes or a probability that are none.
        TypeError: for sizes or flags of another type.
    """

    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_settings(mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        state, gates = proj_size or hidden_size, CHUNKS[mode] * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else state * self._directions
            for suffix in self._suffixes(layer):
                shapes = {"weight_ih": (gates, inputs), "weight_hh": (gates, state)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}  # type: ignore[dict-item]
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for name, shape in shapes.items():
                    self.register_parameter(f"{name}_{suffix}", new_parameter(shape, device, dtype))
        self.reset_parameters()

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer: int) -> list[str]:
        """What the names of a layer's parameters end with, for each direction."""
        return [f"l{layer}{direction}" for direction in ("", "_reverse")[: self._directions]]

    def _weights(self, suffix: str) -> Weights:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return Weights(*[getattr(self, f"{name}_{suffix}", None) for name in names])  # type: ignore[arg-type]

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of each layer and direction."""
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[value for name, value in self._parameters.items() if name.endswith(f"_{end}")] for end in suffixes]

    def flatten_parameters(self) -> None:
        """Does nothing: PyTorch makes one block of memory of all weights here, for its CUDA kernels."""

    def reset_parameters(self) -> None:
        """Draw the parameters anew: uniform between plus and minus ``1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    # -- forward -------------------------------------------------------------------------------------------------------

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        name = type(self).__name__
        if input.dim() not in (2, 3):
            raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D tensor instead")
        batched = input.dim() == 3
        dtype = self.weight_ih_l0.dtype
        if input.dtype != dtype:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input:"
                f" input.to({dtype}), or convert model: model.to({input.dtype})"
            )
        if input.shape[-1] != self.input_size:
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}"
            )
        x = input if batched else input.unsqueeze(1)
        if batched and self.batch_first:
            x = x.transpose(0, 1)
        output, last = self._run(x, self._states(x, hx, batched))
        if batched and self.batch_first:
            output = output.transpose(0, 1)
        if not batched:
            output, last = output.squeeze(1), tuple(state.squeeze(1) for state in last)
        return output, last if self.mode == "LSTM" else last[0]

    def _states(self, x: Tensor, hx: Any, batched: bool) -> State:
        """The states to begin with, each ``(layers * directions, N, size)``."""
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: 2 if self.mode == "LSTM" else 1]
        wanted = [(self.num_layers * self._directions, x.shape[1], size) for size in sizes]
        if hx is None:
            return tuple(zeros(shape, dtype=x.dtype, device=x.device) for shape in wanted)
        given = tuple(hx) if self.mode == "LSTM" else (hx,)
        for number, (state, shape) in enumerate(zip(given, wanted, strict=True)):
            dims = 3 if batched else 2
            if state.dim() != dims:
                raise RuntimeError(
                    f"For {'batched' if batched else 'unbatched'} {dims}-D input, hx should also be {dims}-D but got"
                    f" {state.dim()}-D tensor"
                )
            got = tuple(state.shape) if batched else (state.shape[0], 1, state.shape[1])
            if got != shape:
                which = f"hidden[{number}]" if self.mode == "LSTM" else "hidden"
                raise RuntimeError(f"Expected {which} size {shape}, got {list(got)}")
        return given if batched else tuple(state.unsqueeze(1) for state in given)

    def _run(self, x: Tensor, first: State) -> tuple[Tensor, State]:
        """All layers over ``(time, N, size)``: the outputs of the last one, and the last states of all."""
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = F.dropout(x, self.dropout)
            outputs = []
            for backwards, suffix in enumerate(self._suffixes(layer)):
                number = layer * self._directions + backwards
                state = tuple(states[number] for states in first)
                output, state = self._run_one(x, state, self._weights(suffix), bool(backwards))
                outputs.append(output)
                last.append(state)
            x = functions.cat(outputs, 2) if self.bidirectional else outputs[0]
        return x, tuple(functions.stack(states) for states in zip(*last, strict=True))

    def _run_one(self, x: Tensor, state: State, weights: Weights, backwards: bool) -> tuple[Tensor, State]:
        """One direction of one layer."""
        inputs, step = from_inputs(self.mode, x, weights), step_of(self.mode, weights)
        times = range(x.shape[0])
        outputs: list[Any] = [None] * x.shape[0]
        for time in reversed(times) if backwards else times:
            state = step(inputs[time], state)
            outputs[time] = state[0]
        if not outputs:
            raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
        return functions.stack(outputs), state

    def extra_repr(self) -> str:
        said = [f"{self.input_size}, {self.hidden_size}"]
        plain = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        said += [f"{name}={getattr(self, name)}" for name, value in plain.items() if getattr(self, name) != value]
        return ", ".join(said)


def _check_settings(
    mode: str,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bias: bool,
    batch_first: bool,
    dropout: float,
    proj_size: int,
) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element being zeroed,"
            f" got {dropout!r}"
        )
    if dropout > 0 and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers"
            f" greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=user_level(),
        )
    for name, flag in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(flag).__name__}")
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero, got {size}")
    if not 0 <= proj_size < hidden_size:
        raise ValueError(
            f"proj_size should be a positive integer or zero to disable projections, and has to be smaller than"
            f" hidden_size, got {proj_size}"
        )
    if mode not in CHUNKS:
        raise ValueError(f"Unrecognized RNN mode: {mode}; expected one of {', '.join(CHUNKS)}")


class RNN(RNNBase):
    """``h = tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)`` over a sequence.

    Args:
        input_size, hidden_size, num_layers: see `RNNBase`.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        bias, batch_first, dropout, bidirectional, device, dtype: see `RNNBase`.

    Raises:
        ValueError: for another nonlinearity.

    Shapes: input ``(L, N, input_size)`` or ``(L, input_size)``, state ``(num_layers * directions, N, hidden_size)``,
    zeros by default; returns the outputs ``(L, N, directions * hidden_size)`` and the last states. The inputs' part of
    all time steps is one product.
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity {nonlinearity!r}. Select from 'tanh' or 'relu'.")
        settings = bias, batch_first, dropout, bidirectional, 0, device, dtype
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, num_layers, *settings)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997) over a sequence.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: see `RNNBase`.
        proj_size: the size that the output is projected to (Sak et al., 2014); 0 for none.
        device, dtype: of the parameters.

    Shapes: as of `RNN`; the state is a pair ``(h, c)``, with ``h`` of size ``proj_size`` if there is one. The rows of
    the weights are the gates input, forget, cell, output.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        settings = bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        super().__init__("LSTM", input_size, hidden_size, num_layers, *settings)


class GRU(RNNBase):
    """Gated recurrent units (Cho et al., 2014) over a sequence.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype: see `RNNBase`.

    Shapes: as of `RNN`. The rows of the weights are the gates reset, update, new.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        settings = bias, batch_first, dropout, bidirectional, 0, device, dtype
        super().__init__("GRU", input_size, hidden_size, num_layers, *settings)
