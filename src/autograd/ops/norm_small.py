"""Normalisation of few floats: a handful of calls of NumPy, whose results are new arrays.

The arguments have been checked, and arrays may have any strides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_ALL_BUT_SETS, _ALL_BUT_MEMBERS = (0, 2, 3), (0, 3)


def norm_of_rows(x: Any, width: int, weight: Any, bias: Any, eps: float, centred: bool) -> tuple[Any, Any, Any]:
    """Layer norm of rows of a width, or (not ``centred``) RMS norm: the result, the mean if there is one, and rstd."""
    out, mu = np.empty(x.shape, x.dtype), None
    rows, y = x.reshape(-1, width), out.reshape(-1, width)
    if centred:
        mu = np.add.reduce(rows, axis=1)
        mu *= 1 / width
        rows = np.subtract(rows, mu[:, None], y)
    rstd = np.vecdot(rows, rows)
    rstd *= 1 / width
    rstd += eps
    np.sqrt(rstd, rstd)
    np.reciprocal(rstd, rstd)
    np.multiply(rows, rstd[:, None], y)
    if weight is not None:
        y *= weight.reshape(width)
    if bias is not None:
        y += bias.reshape(width)
    return out, mu, rstd


def norm_of_rows_backward(
    grad: Any, x: Any, weight: Any, mu: Any, rstd: Any, shape: tuple[int, ...], needs: tuple[bool, ...]
) -> tuple[Any, Any, Any]:
    """The gradients of `norm_of_rows` that are needed, at input, weight and bias; without a mean it was RMS norm."""
    by_x = by_weight = by_bias = None
    width = x.size // len(rstd)
    g, factor = grad.reshape(-1, width), rstd[:, None]
    normal = x.reshape(-1, width)
    normal = normal * factor if mu is None else (normal - mu[:, None]) * factor
    products = g * normal
    if needs[1]:
        by_weight = _total(products, shape)
    if needs[2]:
        by_bias = _total(g, shape)
    if needs[0]:
        if weight is not None:
            g, products = g * weight.reshape(width), np.multiply(products, weight.reshape(width), products)
        slope = np.add.reduce(products, axis=1, keepdims=True)
        slope *= -1 / width
        normal *= slope
        if mu is not None:
            shift = np.add.reduce(g, axis=1, keepdims=True)
            shift *= -1 / width
            normal += shift
        normal += g
        by_x = np.empty(x.shape, x.dtype)
        np.multiply(normal, factor, by_x.reshape(-1, width))
    return by_x, by_weight, by_bias


def _total(rows: Any, shape: tuple[int, ...]) -> Any:
    total = np.empty(shape, rows.dtype)
    np.add.reduce(rows, axis=0, out=total.reshape(-1))
    return total


def norm_of_sets(
    x: Any, sets: tuple[int, ...], weight: Any, bias: Any, numbers: tuple[int, ...], eps: float
) -> tuple[Any, Any, Any]:
    """Batch norm or group norm: the result, and mean and variance in the shape ``numbers``.

    ``sets`` is the shape (outer, sets, members of a set, places); ``weight`` and ``bias`` are (sets, members).
    """
    out, mu, variance = np.empty(x.shape, x.dtype), np.empty(numbers, x.dtype), np.empty(numbers, x.dtype)
    y, m, v = out.reshape(sets), mu.reshape(-1), variance.reshape(-1)
    values, share = x.reshape(sets), sets[1] / x.size
    np.add.reduce(values, axis=_ALL_BUT_SETS, out=m)
    m *= share
    np.subtract(values, m[:, None, None], y)
    np.add.reduce(y * y, axis=_ALL_BUT_SETS, out=v)
    v *= share
    y *= _factor(v, weight, eps)[1][:, :, None]
    if bias is not None:
        y += bias[:, :, None]
    return out, mu, variance


def norm_of_sets_backward(
    grad: Any,
    x: Any,
    sets: tuple[int, ...],
    weight: Any,
    mu: Any,
    variance: Any,
    eps: float,
    needs: tuple[bool, ...],
) -> tuple[Any, Any, Any]:
    """The gradients of `norm_of_sets` that are needed, at input, weight and bias (these of all channels)."""
    by_x = by_weight = by_bias = None
    g, channels = grad.reshape(sets), grad.shape[1]
    totals = np.add.reduce(g, axis=_ALL_BUT_MEMBERS)
    if needs[2]:
        by_bias = np.add.reduce(totals.reshape(-1, channels), axis=0)
    if x is not None:
        rstd, factor = _factor(variance.reshape(-1), weight, eps)
        centred = x.reshape(sets) - mu.reshape(-1, 1, 1)
        products = np.add.reduce(g * centred, axis=_ALL_BUT_MEMBERS)
        products *= rstd
        if needs[1]:
            by_weight = np.add.reduce(products.reshape(-1, channels), axis=0)
        if needs[0]:
            share = -sets[1] / x.size
            totals *= factor
            products *= factor
            slope = np.add.reduce(products, axis=1, keepdims=True)
            slope *= rstd
            slope *= share
            shift = np.add.reduce(totals, axis=1, keepdims=True)
            shift *= share
            centred *= slope[:, :, None]
            centred += shift[:, :, None]
            by_x = np.empty(grad.shape, grad.dtype)
            scaled = np.multiply(g, factor[:, :, None], by_x.reshape(sets))
            scaled += centred
    return by_x, by_weight, by_bias


def _factor(variance: Any, weight: Any, eps: float) -> tuple[Any, Any]:
    """The reciprocal standard deviations (sets, 1), and what the elements of each member are multiplied with."""
    rstd = (variance + eps)[:, None]
    np.sqrt(rstd, rstd)
    np.reciprocal(rstd, rstd)
    return rstd, rstd if weight is None else rstd * weight
