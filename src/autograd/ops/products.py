"""Products beyond the matrix product: contractions of two tensors over any axes, the cross product."""

from __future__ import annotations

from typing import Any, TypeAlias

from ...kernels import backend
from ..dispatch import Op
from ..plain import apply_plain, small_result
from ..record import Do, Slot, Spec, broadcast_shapes
from .elementwise import mul
from .promotion import promote
from .sum_to import reduced

Labels: TypeAlias = tuple[int, ...]


class Contraction(Op):
    """The sum of products over the labels of axes that the result lacks: `einsum` of two tensors.

    Each label stands once at most in an operand and in the result, and in two of the three at least. So the gradient of
    an operand is a contraction as well: of the gradient with the other operand. No product is formed before it is
    summed, and operands are saved as they are, not as the matrices that the kernel makes of them.
    """

    name = "einsum"
    inputs = 2
    saves = (Slot("self", 0, needed_for=(1,)), Slot("other", 1, needed_for=(0,)))
    complex_saved = "conjugated"

    def __call__(self, x: Any, y: Any, left: Labels, right: Labels, result: Labels) -> Any:
        return apply_plain(self, (x, y), left, right, result)

    def small(self, x: Any, y: Any, left: Labels, right: Labels, result: Labels) -> Any:
        out = small_result(*self.infer(x, y, left, right, result))
        if out is not None:
            backend("cpu").contract(x, y, out, left=left, right=right, result=result)
        return out

    def infer(self, x: Any, y: Any, left: Labels, right: Labels, result: Labels) -> tuple[Spec, ...]:
        return ((_contracted("einsum", x, y, left, right, result), x.dtype),)

    def kernel(self, k: Any, x: Any, y: Any, left: Labels, right: Labels, result: Labels, out: Any) -> None:
        k.contract(x, y, out, left=left, right=right, result=result)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return _by_operands(do, node.needs_grad, saved, grads[0], node.op_attrs[:3])


def _contracted(name: str, x: Any, y: Any, left: Labels, right: Labels, result: Labels) -> tuple[int, ...]:
    """The shape of a contraction, once dtypes and sizes are found to fit."""
    if x.dtype != y.dtype:
        raise RuntimeError(f"{name}: expected operands of the same dtype, but got: {x.dtype} != {y.dtype}")
    if x.dtype == bool and not {*left, *right} <= {*result}:
        raise NotImplementedError(f"{name}: not implemented for bool; convert the tensors first")
    sizes = dict(zip(left, x.shape, strict=True))
    for label, size in zip(right, y.shape, strict=True):
        if sizes.setdefault(label, size) != size:
            raise RuntimeError(
                f"{name}: shapes {list(x.shape)} and {list(y.shape)} do not fit: an axis has size {sizes[label]} in one"
                f" and {size} in the other"
            )
    return tuple([sizes[label] for label in result])


def _by_operands(do: Do, needs: Any, saved: tuple[Any, ...], grad: Any, labels: tuple[Labels, ...]) -> tuple[Any, Any]:
    (x, y), (left, right, result) = saved, labels
    by_x = do(contraction, grad, y, result, right, left) if needs[0] else None
    by_y = do(contraction, grad, x, result, left, right) if needs[1] else None
    return by_x, by_y


class AddContraction(Op):
    """``beta * input + alpha * (a contraction of two tensors)``, in one array; the input is broadcast."""

    name = "addmm"
    inputs = 3
    saves = (Slot("mat1", 1, needed_for=(2,)), Slot("mat2", 2, needed_for=(1,)))
    complex_saved = "conjugated"

    def infer(
        self, x: Any, a: Any, b: Any, left: Labels, right: Labels, result: Labels, beta: complex, alpha: complex
    ) -> tuple[Spec, ...]:
        shape = _contracted(self.name, a, b, left, right, result)
        if x.dtype != a.dtype:
            raise RuntimeError(f"addmm: expected operands of the same dtype, but got: {x.dtype} != {a.dtype}")
        if a.dtype.kind in "iu" and any(isinstance(number, float | complex) for number in (beta, alpha)):
            raise RuntimeError(
                "For integral input tensors, arguments alpha and beta must not be floating point numbers."
            )
        if broadcast_shapes(self.name, x.shape, shape) != shape:
            raise RuntimeError(f"addmm: an input of shape {list(x.shape)} can't be expanded to {list(shape)}")
        return ((shape, a.dtype),)

    def kernel(self, k: Any, x: Any, a: Any, b: Any, *args: Any) -> None:
        left, right, result, beta, alpha, out = args
        k.contract(a, b, out, left=left, right=right, result=result)
        k.scale_add(x, out, alpha=alpha, beta=beta)

    def attrs(self, x: Any, a: Any, b: Any, *rest: Any) -> Any:
        return (*rest, x.shape)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        *labels, beta, alpha, shape = node.op_attrs
        (grad,) = grads
        needs = node.needs_grad
        by_x = _scaled(do, reduced(do, grad, shape), beta) if needs[0] else None
        products = _by_operands(do, needs[1:], saved, grad, tuple(labels))
        by_a, by_b = (None if by is None else _scaled(do, by, alpha) for by in products)
        return by_x, by_a, by_b

    fresh = False


def _scaled(do: Do, grad: Any, factor: complex) -> Any:
    return grad if factor == 1 else do(mul, grad, factor.conjugate())


class LinalgCross(Op):
    """The cross product of vectors of three along a dimension; operands are broadcast."""

    name = "linalg_cross"
    inputs = 2
    saves = (Slot("self", 0, needed_for=(1,)), Slot("other", 1, needed_for=(0,)))
    complex_saved = "conjugated"

    def infer(self, x: Any, y: Any, dim: int) -> tuple[Spec, ...]:
        return ((broadcast_shapes(self.name, x.shape, y.shape), promote(x.dtype, y.dtype)),)

    def kernel(self, k: Any, x: Any, y: Any, dim: int, out: Any) -> None:
        k.cross(x, y, out, axis=dim)

    def attrs(self, x: Any, y: Any, dim: int) -> Any:
        return dim, x.shape, y.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (x, y), (dim, shape_x, shape_y) = saved, node.op_attrs
        needs_x, needs_y = node.needs_grad
        by_x = reduced(do, do(cross, y, grads[0], dim), shape_x) if needs_x else None
        by_y = reduced(do, do(cross, grads[0], x, dim), shape_y) if needs_y else None
        return by_x, by_y


contraction = Contraction()
add_contraction = AddContraction()
cross = LinalgCross()
