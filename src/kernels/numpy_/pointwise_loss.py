"""Losses of input and target, element by element: each tile is reduced while it is in the cache; and their gradients.

NOTE [ Losses of elements ]
1. ``kind`` names the loss, ``parameter`` is the one number that it has: ``beta`` of smooth L1, ``delta`` of Huber, and
   for ``"kl_div"`` whether the target is a logarithm.
2. ``weight`` and ``pos_weight`` (of ``"bce"`` with logits) broadcast to the input; None stands for 1.
3. Half precision is computed in float32. Sums are taken in float64, in the order of the tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..executor import Array, ScratchSpec, parallel_for, scratch
from .rows import sum_of_all, sum_of_all_products
from .tiling import BOOL, FLOAT32, FLOAT64, TILE_BYTES, DType, is_contiguous, tile_size

__all__ = ["pointwise_loss", "pointwise_loss_backward"]

_WORKING = (FLOAT32, FLOAT64)  # the dtypes that are computed in themselves


def pointwise_loss(
    x: Array,
    target: Array,
    weight: Array | None,
    pos_weight: Array | None,
    out: Array,
    *,
    kind: str,
    parameter: float = 0.0,
    reduction: str = "mean",
) -> None:
    """``out`` = the loss of each element (``reduction="none"``), their ``"sum"`` or their ``"mean"``.

    Args:
        x, target: of one shape, any strides.
        weight, pos_weight: see the note, rule 2.
        out: of the shape of ``x``, or of one element.
        kind: one of ``"mse"``, ``"l1"``, ``"smooth_l1"``, ``"huber"``, ``"bce"``, ``"bce_logits"``, ``"kl_div"``.

    Raises:
        RuntimeError: for ``"bce"`` if an element of ``x`` is not between 0 and 1.
    """
    tensors = _inputs(x, target, weight, pos_weight)
    one = _is_one_tile(x, tensors)
    sums = np.zeros(1 if one or reduction == "none" else max(1, _Tiles.of(tensors, x).number), FLOAT64)
    factors = _KINDS[kind].factors

    def tile(index: int, tensors: list[Array | None], outs: list[Array], work: Array, *spare: Array) -> None:
        first, second, weights, positive = tensors
        with np.errstate(all="ignore"):
            operands = _Operands(first, second, positive, parameter)
            if factors is not None and weights is None and reduction != "none":
                first, second, share = factors(operands, work, *spare)
                sums[index] = share * sum_of_all_products(first, second)
                return
            _KINDS[kind].value(operands, work, *spare)
            if weights is not None:
                np.multiply(work, weights, work)
        if reduction == "none":
            np.copyto(outs[0], work, casting="unsafe")
        else:
            sums[index] = sum_of_all(work)

    _for_tiles(tile, x, target, weight, pos_weight, [out] if reduction == "none" else [], _KINDS[kind].buffers)
    if reduction != "none":
        total = sums[0] if one else np.add.reduce(sums)
        size = x.size if reduction == "mean" else 1
        out[...] = total / size if size else np.nan


def pointwise_loss_backward(
    grad: Array,
    x: Array,
    target: Array,
    weight: Array | None,
    pos_weight: Array | None,
    grad_x: Array | None,
    grad_target: Array | None,
    *,
    kind: str,
    parameter: float = 0.0,
    scale: float = 1.0,
) -> None:
    """The gradients of `pointwise_loss` that are asked for (not None): ``grad * scale`` times the slopes.

    ``grad`` has the shape of ``x``, or none if the losses were reduced.
    """
    slopes = _KINDS[kind]
    reduced = grad.ndim == 0 and x.ndim > 0
    factor = (float(grad) * scale if reduced else scale) * slopes.steeper
    wanted = [gradient for gradient in (grad_x, grad_target) if gradient is not None]
    by_target = [False, True] if len(wanted) == 2 else [grad_x is None]

    def tile(index: int, tensors: list[Array | None], outs: list[Array], work: Array, *spare: Array) -> None:
        first, second, weights, positive = tensors
        upstream, targets = (None, outs) if reduced else (outs[0], outs[1:])
        for place, wants_target in zip(targets, by_target, strict=True):
            if wants_target and len(targets) == 2 and slopes.differ_in_sign:
                np.negative(targets[0], place)
                continue
            made = place if place.dtype == work.dtype else work
            with np.errstate(all="ignore"):
                slope = slopes.target_slope if wants_target else slopes.slope
                slope(_Operands(first, second, positive, parameter), made, *spare)
                if weights is not None:
                    np.multiply(made, weights, made)
                if factor != 1:
                    np.multiply(made, factor, made)
                if upstream is not None:
                    np.multiply(made, upstream, made)
            if made is work:
                np.copyto(place, work, casting="unsafe")

    _for_tiles(tile, x, target, weight, pos_weight, ([] if reduced else [grad]) + wanted, slopes.buffers)


# -- tiles -------------------------------------------------------------------------------------------------------------


class _Tiles(NamedTuple):
    """How arrays of one shape are cut: runs of the flat array, or blocks along one axis."""

    shape: tuple[int, ...]
    size: int
    tile: int
    flat: bool
    axis: int
    step: int

    @classmethod
    def of(cls, arrays: Sequence[Array], like: Array) -> _Tiles:
        shape, size = like.shape, like.size
        tile = tile_size(size, like.dtype)
        if size <= tile or all(map(is_contiguous, arrays)):
            return cls(shape, size, tile, True, 0, 0)
        axis, inner = len(shape) - 1, 1
        while axis > 0 and inner * shape[axis] <= tile:
            inner *= shape[axis]
            axis -= 1
        return cls(shape, size, tile, False, axis, max(1, tile // inner))

    @property
    def number(self) -> int:
        if self.size <= self.tile:
            return min(self.size, 1)
        if self.flat:
            return -(-self.size // self.tile)
        return math.prod(self.shape[: self.axis]) * -(-self.shape[self.axis] // self.step)

    def part(self, array: Array, index: int) -> Array:
        """A tile of an array."""
        if self.size <= self.tile:
            return array
        if self.flat:
            return array.reshape(-1)[index * self.tile : (index + 1) * self.tile]
        before, run = divmod(index, -(-self.shape[self.axis] // self.step))
        leading = np.unravel_index(before, self.shape[: self.axis]) if self.axis else ()
        where: tuple[Any, ...] = (*leading, slice(run * self.step, (run + 1) * self.step))
        part: Array = array[where]
        return part


def _is_one_tile(x: Array, tensors: Sequence[Array]) -> bool:
    """Whether nothing has to be cut or cast."""
    dtype = x.dtype
    return x.nbytes <= TILE_BYTES and dtype in _WORKING and all(tensor.dtype == dtype for tensor in tensors)


def _inputs(*tensors: Array | None) -> list[Array]:
    return [tensor for tensor in tensors if tensor is not None]


def _for_tiles(
    body: Callable[..., None],
    x: Array,
    target: Array,
    weight: Array | None,
    pos_weight: Array | None,
    outs: list[Array],
    buffers: int,
) -> None:
    """Call ``body(index, tiles of the four, tiles of the outs, work, spare, third, mask)`` for each tile.

    Only so many ``buffers`` of the last four are handed on.
    """
    if weight is not None or pos_weight is not None:
        weight, pos_weight = (w if w is None else np.broadcast_to(w, x.shape) for w in (weight, pos_weight))
    tensors = [x, target, weight, pos_weight]
    if _is_one_tile(x, _inputs(*tensors)):
        dtypes = [x.dtype, x.dtype, x.dtype, BOOL][:buffers]
        if x.size:
            body(0, tensors, outs, *[scratch(x.shape, dtype) for dtype in dtypes])
        return
    cut = _Tiles.of(_inputs(*tensors, *outs), x)
    working: DType = FLOAT64 if x.dtype == FLOAT64 else FLOAT32
    cast = [tensor is not None and tensor.dtype != working for tensor in tensors]
    dtypes = [working, working, working, BOOL][:buffers]
    length = min(cut.tile, x.size)
    specs: list[ScratchSpec] = [((length,), dtype) for dtype in dtypes]
    specs += [((length if casting else 0,), working) for casting in cast]

    def tile(index: int, *scratch: Array) -> None:
        parts = [None if tensor is None else cut.part(tensor, index) for tensor in tensors]
        shape = cut.part(x, index).shape
        size = math.prod(shape)
        carved = [buffer[:size].reshape(shape) if buffer.size else buffer for buffer in scratch]
        for number, part in enumerate(parts):
            if part is not None and cast[number]:
                np.copyto(carved[len(dtypes) + number], part, casting="unsafe")
                parts[number] = carved[len(dtypes) + number]
        body(index, parts, [cut.part(out, index) for out in outs], *carved[: len(dtypes)])

    parallel_for(tile, cut.number, specs)


# -- kinds -------------------------------------------------------------------------------------------------------------


class _Operands(NamedTuple):
    """What the functions of a kind read: tiles of input, target and ``pos_weight``, and the parameter."""

    x: Any
    t: Any
    positive: Any
    parameter: float


class _Kind(NamedTuple):
    """``value``, ``slope`` by the input and by the target fill a tile; they get two more of scratch, and a mask.

    ``factors`` fills tiles, too, and gives two of them and a number: the loss is their product, which need not be
    written to be added up.
    """

    value: Callable[..., None]
    slope: Callable[..., None]
    target_slope: Callable[..., None]
    differ_in_sign: bool = False  # the slopes do
    buffers: int = 4  # tiles of scratch, the one to fill included
    factors: Callable[..., tuple[Array, Array, float]] | None = None
    steeper: float = 1.0  # what the slopes that are filled in have to be multiplied by


def _of_difference(value: Callable[..., None], slope: Callable[..., None], buffers: int) -> _Kind:
    """A loss of ``x - t``: its slopes differ in the sign only."""

    def target_slope(o: _Operands, work: Array, *spare: Array) -> None:
        slope(o, work, *spare)
        np.negative(work, work)

    return _Kind(value, slope, target_slope, differ_in_sign=True, buffers=buffers)


def _product_of_difference(factors: Callable[..., Any], slope: Callable[..., None], buffers: int) -> _Kind:
    """A loss of ``x - t`` that is a product."""

    def value(o: _Operands, work: Array, *spare: Array) -> None:
        first, second, share = factors(o, work, *spare)
        np.multiply(first, second, work)
        if share != 1:
            np.multiply(work, share, work)

    return _of_difference(value, slope, buffers)._replace(factors=factors)


def _mse_factors(o: _Operands, work: Array, *spare: Array) -> tuple[Array, Array, float]:
    np.subtract(o.x, o.t, work)
    return work, work, 1.0


def _half_mse_slope(o: _Operands, work: Array, *spare: Array) -> None:
    np.subtract(o.x, o.t, work)


def _l1(o: _Operands, work: Array, *spare: Array) -> None:
    np.subtract(o.x, o.t, work)
    np.absolute(work, work)


def _l1_slope(o: _Operands, work: Array, spare: Array, third: Array, mask: Array) -> None:
    # Without branches: np.sign takes twenty times as long where signs follow no pattern. For NaN it is 0.
    np.greater(o.x, o.t, mask)
    np.copyto(work, mask)
    np.less(o.x, o.t, mask)
    np.subtract(work, mask, work)


def _huber_factors(o: _Operands, work: Array, spare: Array, *more: Array) -> tuple[Array, Array, float]:
    """With ``c`` for ``d = x - t`` held between ``-delta`` and ``delta`` it is ``-2 * (d - c / 2) * (-c / 2)``."""
    np.subtract(o.x, o.t, work)
    work.clip(-o.parameter, o.parameter, spare)  # a third of the time of np.minimum with a number
    np.multiply(spare, -0.5, spare)
    np.add(work, spare, work)
    return work, spare, -2.0


def _huber_slope(o: _Operands, work: Array, *spare: Array) -> None:
    np.subtract(o.x, o.t, work)
    work.clip(-o.parameter, o.parameter, work)


def _smooth_l1_factors(o: _Operands, work: Array, *spare: Array) -> tuple[Array, Array, float]:
    first, second, share = _huber_factors(o, work, *spare)
    return first, second, share / o.parameter


def _smooth_l1_slope(o: _Operands, work: Array, *spare: Array) -> None:
    _huber_slope(o, work)
    if o.parameter != 1:
        np.divide(work, o.parameter, work)


def _bce(o: _Operands, work: Array, spare: Array, *more: Array) -> None:
    """``-(t * log(x) + (1 - t) * log(1 - x))`` with logarithms of at least -100."""
    if not (np.minimum.reduce(o.x, axis=None) >= 0 and np.maximum.reduce(o.x, axis=None) <= 1):
        raise RuntimeError("binary_cross_entropy: all elements of input should be between 0 and 1")
    _logarithms(o, work, spare)
    np.multiply(work, o.t, work)
    np.subtract(o.t, 1, more[0])
    np.multiply(spare, more[0], spare)
    np.subtract(spare, work, work)


def _logarithms(o: _Operands, work: Array, spare: Array) -> None:
    np.log(o.x, work)
    work.clip(-100, np.inf, work)
    np.negative(o.x, spare)
    np.log1p(spare, spare)
    spare.clip(-100, np.inf, spare)


def _bce_slope(o: _Operands, work: Array, spare: Array, *more: Array) -> None:
    np.subtract(1, o.x, spare)
    np.multiply(spare, o.x, spare)
    spare.clip(1e-12, np.inf, spare)
    np.subtract(o.x, o.t, work)
    np.divide(work, spare, work)


def _bce_target_slope(o: _Operands, work: Array, spare: Array, *more: Array) -> None:
    _logarithms(o, work, spare)
    np.subtract(spare, work, work)


def _log_sigmoid(x: Array, out: Array, spare: Array) -> None:
    np.absolute(x, spare)
    np.negative(spare, spare)
    np.exp(spare, spare)
    np.log1p(spare, spare)
    x.clip(-np.inf, 0, out)
    np.subtract(out, spare, out)


def _bce_logits(o: _Operands, work: Array, spare: Array, *more: Array) -> None:
    """``(1 - t) * x - (1 + (positive - 1) * t) * log(sigmoid(x))``."""
    _log_sigmoid(o.x, work, spare)
    if o.positive is not None:
        np.subtract(o.positive, 1, spare)
        np.multiply(spare, o.t, spare)
        np.add(spare, 1, spare)
        np.multiply(work, spare, work)
    np.subtract(1, o.t, spare)
    np.multiply(spare, o.x, spare)
    np.subtract(spare, work, work)


def _bce_logits_slope(o: _Operands, work: Array, spare: Array, *more: Array) -> None:
    np.negative(o.x, work)
    np.exp(work, work)
    np.add(work, 1, work)
    np.divide(1, work, work)  # twice as fast as np.reciprocal
    if o.positive is None:
        np.subtract(work, o.t, work)
        return
    np.multiply(o.positive, o.t, spare)
    np.add(spare, 1, more[0])
    np.subtract(more[0], o.t, more[0])
    np.multiply(work, more[0], work)
    np.subtract(work, spare, work)


def _bce_logits_target_slope(o: _Operands, work: Array, spare: Array, *more: Array) -> None:
    if o.positive is None:
        np.negative(o.x, work)
        return
    _log_sigmoid(o.x, work, spare)
    np.subtract(1, o.positive, spare)
    np.multiply(work, spare, work)
    np.subtract(work, o.x, work)


def _kl_div(o: _Operands, work: Array, spare: Array, *more: Array) -> None:
    """``t * (log(t) - x)``, or ``exp(t) * (t - x)``."""
    if o.parameter:
        np.exp(o.t, spare)
        np.subtract(o.t, o.x, work)
        np.multiply(work, spare, work)
        return
    _logarithm_of_target(o, work, more[1])
    np.multiply(work, o.t, work)
    np.multiply(o.x, o.t, spare)
    np.subtract(work, spare, work)


def _logarithm_of_target(o: _Operands, work: Array, mask: Array) -> None:
    """``log(t)``, and 0 for ``t = 0``."""
    np.log(o.t, work)
    np.equal(o.t, 0, mask)
    np.copyto(work, 0, where=mask)


def _kl_div_slope(o: _Operands, work: Array, *spare: Array) -> None:
    if o.parameter:
        np.exp(o.t, work)
        np.negative(work, work)
    else:
        np.negative(o.t, work)


def _kl_div_target_slope(o: _Operands, work: Array, spare: Array, *more: Array) -> None:
    if o.parameter:
        np.exp(o.t, spare)
        np.subtract(o.t, o.x, work)
        np.add(work, 1, work)
        np.multiply(work, spare, work)
        return
    _logarithm_of_target(o, work, more[1])
    np.add(work, 1, work)
    np.subtract(work, o.x, work)


_KINDS = {
    "mse": _product_of_difference(_mse_factors, _half_mse_slope, buffers=1)._replace(steeper=2.0),
    "l1": _of_difference(_l1, _l1_slope, buffers=4),
    "smooth_l1": _product_of_difference(_smooth_l1_factors, _smooth_l1_slope, buffers=2),
    "huber": _product_of_difference(_huber_factors, _huber_slope, buffers=2),
    "bce": _Kind(_bce, _bce_slope, _bce_target_slope),
    "bce_logits": _Kind(_bce_logits, _bce_logits_slope, _bce_logits_target_slope),
    "kl_div": _Kind(_kl_div, _kl_div_slope, _kl_div_target_slope),
}
