"""Ways to fill a parameter before training; each works in place and returns its tensor."""

from __future__ import annotations

import math

from ..autograd.grad_mode import no_grad
from ..autograd.random import Generator
from ..autograd.tensor import Tensor

# Gains that keep the variance of activations from layer to layer.
_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}
_LEAKY_SLOPE = 0.01


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain for a nonlinearity.

    Args:
        nonlinearity: its name.
        param: the negative slope of ``"leaky_relu"``, 0.01 by default.

    Raises:
        ValueError: for an unknown name, or a slope that is no number.

    >>> calculate_gain("leaky_relu", 1.0)
    1.0
    """
    if nonlinearity == "leaky_relu":
        slope = _LEAKY_SLOPE if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise ValueError(f"negative_slope {slope!r} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join(sorted([*_GAINS, "leaky_relu"]))
        raise ValueError(f"Unsupported nonlinearity {nonlinearity!r}; expected one of {known}")
    return _GAINS[nonlinearity]


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with uniform values from ``[a, b)``."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal values of a mean and a standard deviation."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform values of the variance ``gain**2 * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    Raises:
        ValueError: if the tensor has fewer than two dimensions.
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal values of the variance ``gain**2 * 2 / (fan_in + fan_out)`` (Glorot and Bengio, 2010).

    Raises:
        ValueError: if the tensor has fewer than two dimensions.
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform values of the variance ``gain**2 / fan`` (He et al., 2015).

    Args:
        tensor: what is filled.
        a: the negative slope of ``"leaky_relu"``.
        mode: ``"fan_in"`` keeps the variance in forward, ``"fan_out"`` in backward.
        nonlinearity: what follows the layer: see `calculate_gain`.
        generator: where the values come from; the default generator if None.

    Raises:
        ValueError: if the tensor has fewer than two dimensions, or for an unknown mode or nonlinearity.
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal values of the variance ``gain**2 / fan`` (He et al., 2015); arguments as of `kaiming_uniform_`.

    Raises:
        ValueError: if the tensor has fewer than two dimensions, or for an unknown mode or nonlinearity.
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    modes = ("fan_in", "fan_out")
    if mode not in modes:
        raise ValueError(f"Mode {mode!r} not supported, please use one of {modes}")
    fan = fans(tensor)[modes.index(mode)]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def fans(tensor: Tensor) -> tuple[int, int]:
    """How many inputs each output element of a weight sees, and how many outputs each input element feeds.

    Raises:
        ValueError: if the tensor has fewer than two dimensions.
    """
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions,"
            f" got shape {list(tensor.shape)}"
        )
    out_features, in_features, *kernel = tensor.shape
    field = math.prod(kernel)
    return in_features * field, out_features * field
