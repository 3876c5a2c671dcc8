"""Ways to fill a parameter before training; each works in place and returns its tensor."""

from __future__ import annotations

import math
import warnings

from ..autograd.creation import empty, empty_like, randperm
from ..autograd.frames import user_level
from ..autograd.functions.linear_algebra.factorizations import qr
from ..autograd.grad_mode import no_grad
from ..autograd.random import Generator
from ..autograd.tensor import Tensor

# Gains that keep the variance of activations from layer to layer.
_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
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
        tensor.uniform_(a, b, generator=generator)
    return tensor


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill with normal values of a mean and a standard deviation."""
    with no_grad():
        tensor.normal_(mean, std, generator=generator)
    return tensor


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


# The name by which scripts written for PyTorch know it.
_calculate_fan_in_and_fan_out = fans


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal values, those outside of ``[a, b]`` drawn again; warns where ``mean`` is far outside."""
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_."
            " The distribution of values may be incorrect.",
            stacklevel=user_level(),
        )
    if tensor.device.type == "meta":
        return tensor
    inside = 0.5 * (math.erf((b - mean) / std / math.sqrt(2)) - math.erf((a - mean) / std / math.sqrt(2)))
    with no_grad():
        if inside > 0.3:
            pending = _redraw_normal(tensor, mean, std, a, b, generator)
        else:  # hardly any normal value would do: uniform ones are taken as often as their density says
            pending = _redraw_uniform(tensor, mean, std, a, b, generator)
        values, rows = tensor.reshape(-1), pending
        while rows.numel():
            again = empty_like(values[rows])
            if inside > 0.3:
                left = _redraw_normal(again, mean, std, a, b, generator)
            else:
                left = _redraw_uniform(again, mean, std, a, b, generator)
            values.index_copy_(0, rows, again)
            rows = rows[left]
        if values._storage is not tensor._storage:
            tensor.copy_(values.reshape(tensor.shape))
    return tensor


def _redraw_normal(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> Tensor:
    """Draw, and tell which elements have to be drawn again."""
    tensor.normal_(mean, std, generator=generator)
    outside: Tensor = ((tensor < a) | (tensor > b)).reshape(-1).nonzero().squeeze(1)
    return outside


def _redraw_uniform(tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None) -> Tensor:
    """The same from the uniform distribution."""
    tensor.uniform_(a, b, generator=generator)
    peak = ((max(a, min(mean, b)) - mean) / std) ** 2
    density = (((tensor - mean) / std) ** 2 - peak).mul_(-0.5).exp_()
    chance = empty_like(tensor).uniform_(generator=generator)
    refused: Tensor = (chance > density).reshape(-1).nonzero().squeeze(1)
    return refused


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix, or as much of it as there is room for.

    Raises:
        ValueError: if the tensor is no matrix.
    """
    _check_dims(tensor, 2)
    with no_grad():
        tensor.zero_()
        tensor.diagonal().fill_(1.0)
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Weights of a convolution that passes on as many channels as it can, each group by itself.

    Raises:
        ValueError: if the tensor has other than 3, 4 or 5 dimensions, or the groups do not divide the first.
    """
    _check_dims(tensor, 3, 4, 5)
    if tensor.shape[0] % groups:
        raise ValueError(f"dim 0 must be divisible by groups, got {tensor.shape[0]} and {groups}")
    size = tensor.shape[0] // groups
    middle = [length // 2 for length in tensor.shape[2:]]
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(size, tensor.shape[1])):
                tensor[(group * size + channel, channel, *middle)] = 1.0
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A matrix with orthogonal rows or columns (Saxe et al., 2013), the dimensions behind the first taken as one.

    Raises:
        ValueError: if the tensor has fewer than two dimensions.
    """
    if tensor.dim() < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, got shape {list(tensor.shape)}")
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    with no_grad():
        drawn = normal_(empty((rows, columns), dtype=tensor.dtype, device=tensor.device), generator=generator)
        q, r = qr(drawn.t() if rows < columns else drawn)
        q = q * r.diagonal().sign()  # makes it uniform over all such matrices (Mezzadri, 2007)
        tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape)).mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal values, and zeros as a part of each column (Martens, 2010).

    Args:
        tensor: what is filled.
        sparsity: how much of each column is zero.
        std: of the others.
        generator: where the values come from; the default generator if None.

    Raises:
        ValueError: if the tensor is no matrix.
    """
    _check_dims(tensor, 2)
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0.0, std, generator=generator)
        for column in range(columns):
            tensor[randperm(rows, generator=generator, device=tensor.device)[:zeros], column] = 0.0
    return tensor


def _check_dims(tensor: Tensor, *dims: int) -> None:
    if tensor.dim() not in dims:
        wanted = ", ".join(map(str, dims))
        raise ValueError(f"Only tensors with {wanted} dimensions are supported, got shape {list(tensor.shape)}")
