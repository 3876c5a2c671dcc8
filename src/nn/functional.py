"""Functions of neural networks with PyTorch's names and arguments; each says what it keeps for backward."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.ops import activation, elementwise, linalg, loss, norm, reduce
from ..autograd.ops.attention import attention
from ..autograd.ops.dropout import dropout as dropout_op
from ..autograd.ops.embedding import embedding as embedding_op
from ..autograd.random import Generator
from ..autograd.tensor import Tensor

_REDUCTIONS = ("none", "mean", "sum")


# -- checks that modules share -----------------------------------------------------------------------------------------


def check_probability(p: float) -> None:
    """Raise ``ValueError`` unless a dropout probability is between 0 and 1."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def check_reduction(reduction: str) -> None:
    """Raise ``ValueError`` for a reduction that does not exist."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction; expected one of {', '.join(_REDUCTIONS)}")


def _check_tensors(name: str, **tensors: Any) -> None:
    for argument, value in tensors.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}(): argument {argument!r} must be Tensor, not {type(value).__name__}")


# -- layers ------------------------------------------------------------------------------------------------------------


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``.

    Args:
        input: ``(*, in_features)``.
        weight: ``(out_features, in_features)``.
        bias: ``(out_features,)`` or None.

    Returns:
        ``(*, out_features)``.

    Raises:
        RuntimeError: if shapes, dtypes or devices do not fit.

    Keeps the input if the weight needs a gradient, and the weight if the input does.
    """
    _check_tensors("linear", input=input, weight=weight)
    result: Tensor = linalg.linear(input, weight, bias)
    return result


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of a table.

    Args:
        input: integers, of any shape.
        weight: the table, ``(num_embeddings, embedding_dim)``.
        padding_idx: a row that gets no gradient; may count from the end.

    Returns:
        ``(*input.shape, embedding_dim)``.

    Raises:
        IndexError: if an index is no row of the table.
        RuntimeError: if ``input`` holds no integers, or ``weight`` is no matrix.
        ValueError: if ``padding_idx`` is no row of the table.

    Keeps the indices.
    """
    _check_tensors("embedding", input=input, weight=weight)
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise ValueError(f"Padding_idx must be within num_embeddings = {rows}, got {padding_idx}")
        padding_idx %= rows
    result: Tensor = embedding_op(input, weight, padding_idx)
    return result


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Zero mean and unit variance over the last dimensions, then a scale and a shift.

    Args:
        input: ``(*, *normalized_shape)``.
        normalized_shape: the sizes of the dimensions that are normalised.
        weight, bias: of the shape ``normalized_shape``, or None.
        eps: added to the variance.

    Raises:
        RuntimeError: if the shapes do not fit.
        TypeError: if ``normalized_shape`` is no sequence.

    Keeps the input and two numbers a row.
    """
    _check_tensors("layer_norm", input=input)
    if not isinstance(normalized_shape, Sequence):
        raise TypeError(
            "layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints,"
            f" not {type(normalized_shape).__name__}"
        )
    result: Tensor = norm.layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    return result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """Zero each element with probability ``p`` and scale the others by ``1 / (1 - p)``.

    Args:
        input: of any shape.
        p: the probability.
        training: False to return the input itself.
        generator: where the numbers come from; the default generator if None.

    Raises:
        ValueError: if ``p`` is not between 0 and 1.

    Keeps one bit an element.
    """
    _check_tensors("dropout", input=input)
    check_probability(p)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    result: Tensor = dropout_op(input, p, generator)
    return result


# -- activations -------------------------------------------------------------------------------------------------------


def relu(input: Tensor) -> Tensor:
    """``max(input, 0)``; keeps one bit an element."""
    _check_tensors("relu", input=input)
    result: Tensor = activation.relu(input)
    return result


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input * Phi(input)``, Phi the normal distribution function.

    Args:
        input: of any shape.
        approximate: ``"none"``, or ``"tanh"`` for the approximation by tanh.

    Raises:
        RuntimeError: for another ``approximate``.

    Keeps the input.
    """
    _check_tensors("gelu", input=input)
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate argument must be either none or tanh, got {approximate!r}")
    result: Tensor = activation.gelu(input, approximate)
    return result


def softmax(input: Tensor, dim: int, *, dtype: np.dtype[Any] | None = None) -> Tensor:
    """``exp(input)`` divided by its sum along a dimension.

    Args:
        input: of any shape.
        dim: the dimension that sums to one.
        dtype: the input is cast to it first.

    Raises:
        IndexError: if there is no such dimension.

    Keeps the result.
    """
    _check_tensors("softmax", input=input)
    result: Tensor = reduce.softmax(input if dtype is None else input.to(dtype=dtype), dim)
    return result


def log_softmax(input: Tensor, dim: int, *, dtype: np.dtype[Any] | None = None) -> Tensor:
    """The logarithm of `softmax`, computed without overflow; arguments, errors and what is kept are the same."""
    _check_tensors("log_softmax", input=input)
    result: Tensor = reduce.log_softmax(input if dtype is None else input.to(dtype=dtype), dim)
    return result


# -- attention ---------------------------------------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value`` in blocks of rows: the T x S matrix never exists.

    Args:
        query: ``(*, T, D)``; the leading dimensions of all three are the same.
        key: ``(*, S, D)``.
        value: ``(*, S, E)``.
        attn_mask: of a shape that broadcasts to ``(*, T, S)``: added if it is floating point, or bool, True where a
            position takes part.
        dropout_p: the probability with which a weight is dropped. Unless it is 0, the T x S matrix does exist.
        is_causal: whether position ``t`` sees only the positions up to ``t``.
        scale: by default ``1 / sqrt(D)``.

    Returns:
        ``(*, T, E)``.

    Raises:
        RuntimeError: if the shapes do not fit, for both a mask and ``is_causal``, or a probability out of range.

    Keeps the three inputs, the result and one number a row.
    """
    _check_tensors("scaled_dot_product_attention", query=query, key=key, value=value)
    if attn_mask is not None and is_causal:
        raise RuntimeError(
            "scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True;"
            " put both into the mask"
        )
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if query.dim() < 2 or not query.dim() == key.dim() == value.dim():
        raise RuntimeError(
            "scaled_dot_product_attention: expected query, key and value of the same number of dimensions, at least 2,"
            f" got {list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if dropout_p > 0.0:
        return _attention_with_dropout(query, key, value, attn_mask, dropout_p, is_causal, scale)
    leading = tuple(query.shape[:-2])
    if len(leading) != 2 and attn_mask is not None:
        attn_mask = attn_mask.expand(*leading, query.shape[-2], key.shape[-2])
    mask = None if attn_mask is None else _with_two_leading(attn_mask)
    q, k, v = map(_with_two_leading, (query, key, value))
    result: Tensor = attention(q, k, v, mask, is_causal, scale)
    if len(leading) != 2:
        result = result.reshape(*leading, *result.shape[-2:])
    return result


def _with_two_leading(tensor: Tensor) -> Tensor:
    """The same elements as (B, H, rows, columns)."""
    if tensor.dim() == 4:
        return tensor
    *leading, rows, columns = tensor.shape
    heads = leading[-1] if leading else 1
    result: Tensor = tensor.reshape(math.prod(leading[:-1]), heads, rows, columns)
    return result


def _attention_with_dropout(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> Tensor:
    scores = (query @ key.transpose(-1, -2)) * (1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = Tensor._wrap(*_causal(scores))
    if attn_mask is not None:
        if attn_mask.dtype == np.dtype(bool):
            scores = elementwise.where(attn_mask, scores, -math.inf)
        else:
            scores = scores + attn_mask
    result: Tensor = dropout(softmax(scores, -1), dropout_p) @ value
    return result


def _causal(scores: Tensor) -> tuple[Any, Any]:
    """A mask that is True on and below the diagonal, for the last two dimensions of ``scores``."""
    rows, columns = scores.shape[-2:]
    array, storage = scores._storage.pool.lease((rows, columns), np.dtype(bool), "activation")
    for row in range(rows):
        array[row, : row + 1] = True
        array[row, row + 1 :] = False
    return array, storage


# -- losses ------------------------------------------------------------------------------------------------------------


def mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Squared differences: their mean, their sum, or (``"none"``) all of them.

    Raises:
        ValueError: for another reduction.
        RuntimeError: if the shapes do not broadcast.

    Warns if the shapes differ. Keeps the difference.
    """
    _check_tensors("mse_loss", input=input, target=target)
    check_reduction(reduction)
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"Using a target size ({list(target.shape)}) that is different to the input size ({list(input.shape)}):"
            " the two are broadcast, which is rarely meant. Give them the same size.",
            stacklevel=2,
        )
    return _reduced(elementwise.square(input - target), reduction)


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        losses = losses.mean()
    elif reduction == "sum":
        losses = losses.sum()
    return losses


def cross_entropy(input: Tensor, target: Tensor, *, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Minus the log-probability that logits give to the right class.

    Args:
        input: logits, ``(C,)``, ``(N, C)`` or ``(N, C, d1, ...)``.
        target: class indices: integers of the shape of ``input`` without ``C``.
        ignore_index: targets with this value add nothing to loss and gradient, and are not counted in the mean.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    Returns:
        A number, or for ``"none"`` the loss of each target.

    Raises:
        ValueError: for another reduction, or if the numbers of rows differ.
        IndexError: if a target is no class.
        RuntimeError: if targets are no integers or shapes do not fit.

    Keeps the logits and one number a row. With a large number of classes, `linear_cross_entropy` keeps far less.
    """
    _check_tensors("cross_entropy", input=input, target=target)
    check_reduction(reduction)
    if input.dim() > 1 and input.shape[0] != (target.shape[0] if target.dim() else 1):
        raise ValueError(
            f"Expected input batch_size ({input.shape[0]}) to match target batch_size"
            f" ({target.shape[0] if target.dim() else 1})."
        )
    classes_last = input
    if input.dim() > 2:
        classes_last = input.permute(0, *range(2, input.dim()), 1)
    if input.dim() == 0 or tuple(classes_last.shape[:-1]) != tuple(target.shape):
        raise RuntimeError(
            f"cross_entropy: expected the target to have the input's shape {list(input.shape)} without the class"
            f" dimension, got {list(target.shape)}"
        )
    rows = classes_last.reshape(-1, classes_last.shape[-1]) if input.dim() != 2 else input
    losses: Tensor = loss.cross_entropy(rows, target.reshape(-1), ignore_index)
    return _reduced_rows(losses, target, ignore_index, reduction)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)`` in chunks: all logits never exist at once.

    Args:
        input: ``(*, in_features)``.
        linear_weight: ``(C, in_features)``.
        target: class indices: integers of the shape ``(*)``.
        linear_bias: ``(C,)`` or None.
        ignore_index, reduction: as for `cross_entropy`.

    Raises:
        ValueError, IndexError, RuntimeError: as `cross_entropy` and `linear`.

    Keeps the input and the gradients of input, weight and bias, which are computed while the logits are there; with
    ``reduction="none"`` input, weight and one number a row, and backward computes the logits again.
    """
    _check_tensors("linear_cross_entropy", input=input, linear_weight=linear_weight, target=target)
    check_reduction(reduction)
    if tuple(input.shape[:-1]) != tuple(target.shape):
        raise ValueError(
            f"linear_cross_entropy: expected a target of the shape {list(input.shape[:-1])} for the input"
            f" {list(input.shape)}, got {list(target.shape)}"
        )
    rows = input if input.dim() == 2 else input.reshape(-1, input.shape[-1])
    arguments = (rows, linear_weight, linear_bias, target.reshape(-1))
    counted = _counted(target, ignore_index)
    if reduction == "none" or counted == 0:
        return _reduced_rows(loss.linear_cross_entropy(*arguments, ignore_index), target, ignore_index, reduction)
    scale = 1.0 / counted if reduction == "mean" else 1.0
    return loss.linear_cross_entropy_loss(*arguments, scale, ignore_index)  # type: ignore[no-any-return]


def _reduced_rows(losses: Tensor, target: Tensor, ignore_index: int, reduction: str) -> Tensor:
    """The losses of the rows, reduced; the mean is over those that count (none at all: nan, as in PyTorch)."""
    result: Tensor = losses.reshape(tuple(target.shape)) if reduction == "none" else losses.sum()
    if reduction == "mean":
        counted = _counted(target, ignore_index)
        result = result / counted if counted else result * math.nan
    return result


def _counted(target: Tensor, ignore_index: int) -> int:
    """How many targets count."""
    return target.numel() if target.device.type == "meta" else int((target._array != ignore_index).sum())
