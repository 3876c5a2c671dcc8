"""Products of Householder matrices ``I - tau * v @ v.H``."""

from __future__ import annotations

from typing import Any

from ..dispatch import Op
from ..record import Do, Slot, Spec
from .complex import conj
from .elementwise import add, div, mul, neg, sub
from .matrices import adjoint, one, product, strictly_lower, triangles
from .shape import Cat, index, zeros_of


class Geqrf(Op):
    """The QR factorisation with Q as Householder vectors."""

    name = "geqrf"
    outputs = 2
    differentiable = False

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return (x.shape, x.dtype), ((*x.shape[:-2], min(x.shape[-2:])), x.dtype)

    def kernel(self, k: Any, x: Any, factors: Any, tau: Any) -> None:
        k.geqrf(x, factors, tau)

    def workspace(self, x: Any) -> int:
        return 3 * one(x)


class LinalgHouseholderProduct(Op):
    """The first columns of the product of Householder matrices.

    Backward takes the matrices off the result one by one, so nothing in between is kept.
    """

    name = "linalg_householder_product"
    inputs = 2
    saves = (Slot("input", 0), Slot("tau", 1), Slot("result", 0, output=True))
    complex_saved = "plain"

    def infer(self, x: Any, tau: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, tau: Any, out: Any) -> None:
        k.householder_product(x, tau, out)

    def workspace(self, x: Any, tau: Any) -> int:
        return int(x.nbytes)

    def attrs(self, x: Any, tau: Any) -> Any:
        return None

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (x, tau, q), (grad,) = saved, grads
        n, count = x.shape[-1], tau.shape[-1]
        if not count:
            return do(mul, x, 0.0), do(mul, tau, 0.0)
        vectors = do(triangles, x, 1, 0, 0, 1)
        by_vectors, by_tau = [], []
        for number in range(count):
            v = do(index, vectors, (..., slice(number, number + 1)))
            factor = do(index, tau, (..., None, slice(number, number + 1)))
            turned = adjoint(do, v)
            # q = (I - factor v v.H) @ rest, of which the inverse is of the same form.
            length = product(do, turned, v)
            back = do(div, factor, do(sub, do(mul, factor, length), 1.0))
            rest = do(sub, q, do(mul, v, do(mul, back, product(do, turned, q))))
            along, by_along = product(do, turned, rest), product(do, turned, grad)
            by_tau.append(do(neg, product(do, by_along, adjoint(do, along))))
            first = do(mul, product(do, grad, adjoint(do, along)), do(conj, factor))
            second = do(mul, product(do, rest, adjoint(do, by_along)), factor)
            by_vectors.append(do(neg, do(add, first, second)))
            grad = do(sub, grad, do(mul, v, do(mul, do(conj, factor), by_along)))
            q = rest
        if count < n:
            by_vectors.append(do(zeros_of, x, (*x.shape[:-1], n - count)))
        by_x = strictly_lower(do, do(Cat(len(by_vectors)), *by_vectors, -1))
        by_tau_row = do(Cat(count), *by_tau, -1)
        return by_x, do(index, by_tau_row, (..., 0, slice(None)))


geqrf = Geqrf()
householder_product = LinalgHouseholderProduct()
