"""Single time steps of recurrent layers, as modules."""

from __future__ import annotations

import math
from typing import Any

from ...autograd.creation import zeros
from ...autograd.tensor import Tensor
from ...memory import DeviceLike
from .. import init
from ..parameter import Parameter
from .making import new_parameter
from .module import Module
from .recurrent_steps import CHUNKS, State, Weights, from_inputs, step_of


class RNNCellBase(Module):
    """What the cells share.

    Args:
        input_size, hidden_size: sizes of input and state.
        bias: whether there are biases.
        num_chunks: the number of gates.
        device, dtype: of the parameters.
    """

    input_size: int
    hidden_size: int
    bias: bool
    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = new_parameter((gates, input_size), device, dtype)
        self.weight_hh = new_parameter((gates, hidden_size), device, dtype)
        self.register_parameter("bias_ih", new_parameter((gates,), device, dtype) if bias else None)
        self.register_parameter("bias_hh", new_parameter((gates,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew: uniform between plus and minus ``1 / sqrt(hidden_size)``."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _step(self, mode: str, input: Tensor, given: State | None) -> State:
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise ValueError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise RuntimeError(f"input has inconsistent input_size: got {input.shape[-1]} expected {self.input_size}")
        x = input if input.dim() == 2 else input.unsqueeze(0)
        if given is None:
            start = zeros(x.shape[0], self.hidden_size, dtype=x.dtype, device=x.device)
            state: State = (start,) * (2 if mode == "LSTM" else 1)
        else:
            for value in given:
                if value.dim() not in (1, 2):
                    raise ValueError(f"{name}: Expected hidden to be 1D or 2D, got {value.dim()}D instead")
            state = given if input.dim() == 2 else tuple(value.unsqueeze(0) for value in given)
            for value in state:
                if tuple(value.shape) != (x.shape[0], self.hidden_size):
                    raise RuntimeError(
                        f"hidden has inconsistent shape: got {list(value.shape)}, expected"
                        f" {[x.shape[0], self.hidden_size]}"
                    )
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        result = step_of(mode, weights)(from_inputs(mode, x, weights), state)
        return result if input.dim() == 2 else tuple(value.squeeze(0) for value in result)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")


class RNNCell(RNNCellBase):
    """``tanh(x @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh)``.

    Args:
        input_size, hidden_size: sizes of input and state.
        bias: whether there are biases.
        nonlinearity: ``"tanh"`` or ``"relu"``.
        device, dtype: of the parameters.

    Raises:
        RuntimeError: in a call, for another nonlinearity or shapes that do not fit.

    Shapes: input ``(N, input_size)`` or ``(input_size,)``, state and result ``(N, hidden_size)`` or ``(hidden_size,)``.
    """

    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        result: Tensor = self._step(f"RNN_{self.nonlinearity.upper()}", input, None if hx is None else (hx,))[0]
        return result

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One step of `LSTM`: takes and returns a pair ``(h, c)``."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, CHUNKS["LSTM"], device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h, c = self._step("LSTM", input, None if hx is None else tuple(hx))
        return h, c


class GRUCell(RNNCellBase):
    """One step of `GRU`."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: DeviceLike | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, CHUNKS["GRU"], device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        result: Tensor = self._step("GRU", input, None if hx is None else (hx,))[0]
        return result
