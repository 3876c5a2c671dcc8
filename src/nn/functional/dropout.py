"""Dropout: of elements, of whole channels, and the forms for selu."""

from __future__ import annotations

import warnings
from typing import Any

from ...autograd import functions
from ...autograd.frames import user_level
from ...autograd.random import Generator
from ...autograd.tensor import Tensor
from ._checks import check_probability, check_tensors

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
]


def _run(name: str, input: Tensor, p: float, training: bool, inplace: bool, generator: Generator | None) -> Tensor:
    check_probability(p)
    function: Any = getattr(functions, f"{name}_" if inplace else name)
    result: Tensor = function(input, p, training, generator=generator)
    return result


def dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        input: of any shape.
        p: the probability.
        training: False to return the input itself.
        inplace: whether to do it in the memory of the input.
        generator: where the numbers come from; the default generator if None.

    Raises:
        ValueError: if ``p`` is not between 0 and 1.

    Keeps one bit an element.
    """
    check_tensors("dropout", input=input)
    return _run("dropout", input, p, training, inplace, generator)


def alpha_dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`dropout` for selu: elements become what selu tends to on the left, and mean and variance stay.

    Arguments, errors and what is kept are those of `dropout`.
    """
    check_tensors("alpha_dropout", input=input)
    return _run("alpha_dropout", input, p, training, inplace, generator)


def dropout1d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`dropout` of whole channels of ``(N, C, L)`` or ``(C, L)``.

    Raises:
        RuntimeError: if the input has other than 2 or 3 dimensions.
        ValueError: if ``p`` is not between 0 and 1.

    Keeps a number a channel.
    """
    check_tensors("dropout1d", input=input)
    check_probability(p)
    if input.dim() not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.dim()}D input. Note that dropout1d exists to"
            " provide channel-wise dropout on inputs with 1 spatial dimension, a channel dimension, and an optional"
            " batch dimension (i.e. 2D or 3D inputs)."
        )
    return _channels(input, p, training, inplace, generator, input.dim() == 2)


def dropout2d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`dropout` of whole channels of ``(N, C, H, W)``; the first two dimensions of other shapes are taken for N and C.

    Raises:
        RuntimeError: if the input has fewer than 2 dimensions.
        ValueError: if ``p`` is not between 0 and 1.

    Warns if the input has not 3 or 4 dimensions. Keeps a number a channel.
    """
    check_tensors("dropout2d", input=input)
    check_probability(p)
    if input.dim() not in (3, 4):
        warnings.warn(
            f"dropout2d: Received a {input.dim()}-D input to dropout2d, which is deprecated and will result in an error"
            " in a future release. Reshape the input to (N, C, H, W), or use dropout() for elements.",
            stacklevel=user_level(),
        )
    return _channels(input, p, training, inplace, generator, False)


def dropout3d(
    input: Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`dropout` of whole channels of ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    Raises:
        RuntimeError: if the input has fewer than 2 dimensions.
        ValueError: if ``p`` is not between 0 and 1.

    Warns if the input has not 4 or 5 dimensions. Keeps a number a channel.
    """
    check_tensors("dropout3d", input=input)
    check_probability(p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: Received a {input.dim()}-D input to dropout3d, which is deprecated and will result in an error"
            " in a future release. Reshape the input to (N, C, D, H, W), or use dropout() for elements.",
            stacklevel=user_level(),
        )
    return _channels(input, p, training, inplace, generator, input.dim() != 5)


def feature_alpha_dropout(
    input: Tensor,
    p: float = 0.5,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """`alpha_dropout` of whole channels, dimension 1 of the input. Keeps a number a channel.

    Raises:
        RuntimeError: if the input has fewer than 2 dimensions.
        ValueError: if ``p`` is not between 0 and 1.
    """
    check_tensors("feature_alpha_dropout", input=input)
    return _run("feature_alpha_dropout", input, p, training, inplace, generator)


def _channels(
    input: Tensor, p: float, training: bool, inplace: bool, generator: Generator | None, unbatched: bool
) -> Tensor:
    """Dropout of channels, of one sample if it is not a batch."""
    if not unbatched:
        return _run("feature_dropout", input, p, training, inplace, generator)
    batch = _run("feature_dropout", input.unsqueeze(0), p, training, inplace, generator)
    result: Tensor = input if inplace else batch.squeeze(0)
    return result
