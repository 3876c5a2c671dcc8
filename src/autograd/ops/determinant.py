"""Determinants."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec
from .complex import conj, imag
from .elementwise import abs as absolute
from .elementwise import add, lt, mul, where
from .matrices import adjoint, is_any, one, product, real_dtype, scale_columns, triangles
from .shape import Cat, index, reshape
from .solve import inv_ex
from .spectral import svd


class LinalgDet(Op):
    """The determinants of square matrices."""

    name = "linalg_det"
    saves = (Slot("A", 0), Slot("result", 0, output=True))
    complex_saved = "plain"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape[:-2], x.dtype),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.det(x, out)

    def workspace(self, x: Any) -> int:
        return one(x)

    def attrs(self, x: Any) -> Any:
        return x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        a, result = saved
        (grad,) = grads
        if 0 in node.op_attrs:
            return (do(mul, a, 0.0),)
        singular = do(lt, do(absolute, result), 100 * float(np.finfo(a.dtype).eps))
        if not is_any(singular):
            return (_scaled(do, do(mul, grad, do(conj, result)), adjoint(do, do(inv_ex, a)[0])),)
        mask = do(reshape, singular, (*singular.shape, 1, 1))
        regular = do(where, mask, do(triangles, a, 0, 0, 0, 1), a)
        adjugates = _by_svd(do, a, grad)
        others = _scaled(do, do(mul, grad, do(conj, result)), adjoint(do, do(inv_ex, regular)[0]))
        return (do(where, mask, adjugates, others),)


def _scaled(do: Do, factor: Any, x: Any) -> Any:
    """Matrices times a number each."""
    return do(mul, x, do(reshape, factor, (*factor.shape, 1, 1)))


def _by_svd(do: Do, a: Any, grad: Any) -> Any:
    """The gradient of the determinant for any matrix, singular ones too: its adjugate is one of orthogonal factors."""
    u, s, vh = do(svd, a, False)
    signs = do(conj, do(mul, do(det, u), do(det, vh)))
    others = _products_of_others(do, s)
    return _scaled(do, do(mul, signs, grad), product(do, scale_columns(do, u, others), vh))


def _products_of_others(do: Do, s: Any) -> Any:
    """For each number of the last dimension, the product of all the others; a number may be 0."""
    size = s.shape[-1]
    parts = [do(index, s, (..., slice(number, number + 1))) for number in range(size)]
    before = [do(add, do(mul, parts[0], 0.0), 1.0)]
    for part in parts[:-1]:
        before.append(do(mul, before[-1], part))
    found, after = [before[-1]], None
    for number in range(size - 2, -1, -1):
        after = parts[number + 1] if after is None else do(mul, after, parts[number + 1])
        found.append(do(mul, before[number], after))
    return do(Cat(size), *reversed(found), -1)


class LinalgSlogdet(Op):
    """The signs of determinants and the logarithms of their absolute values."""

    name = "linalg_slogdet"
    outputs = 2
    saves = (Slot("A", 0), Slot("sign", 0, output=True))
    complex_saved = "plain"

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return (x.shape[:-2], x.dtype), (x.shape[:-2], real_dtype(x.dtype))

    def kernel(self, k: Any, x: Any, sign: Any, logarithm: Any) -> None:
        k.slogdet(x, sign, logarithm)

    def workspace(self, x: Any) -> int:
        return one(x)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (a, sign), (by_sign, factor) = saved, grads
        if by_sign is not None and a.dtype.kind == "c":
            turned = do(mul, do(imag, do(mul, do(conj, by_sign), sign)), -1j)
            factor = turned if factor is None else do(add, factor, turned)
        if factor is None:
            return (do(mul, a, 0.0),)
        return (_scaled(do, factor, adjoint(do, do(inv_ex, a)[0])),)


det = LinalgDet()
slogdet = LinalgSlogdet()
