"""Complex numbers: conjugation, parts, and what makes formulas for real numbers right for complex ones.

NOTE [ Complex gradients ]
1. The gradient of a real loss L with respect to z is dL/d(conj z), PyTorch's convention: the direction in which L grows
   fastest. For a holomorphic function f it is ``grad * conj(f'(z))``.
2. Most formulas multiply the gradient with a function of the saved values that is real for real values. Then
   ``conj(f'(z)) = f'(conj z)``: it is enough to conjugate what was saved. A record says so with
   ``complex_saved = "conjugated"``, and its node gets the twin of the record that does it.
3. A record whose formula conjugates by itself has ``complex_saved = "plain"``.
4. The gradient of a real input is real: the cast that made it complex takes the real part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch import Op, apply
from ..record import Do, Record, Spec, broadcast_shapes
from ..view_op import ViewOp
from .cast import clone, to_dtype
from .sum_to import reduced


class Conj(Op):
    """The complex conjugate; a real tensor is its own."""

    name = "conj"

    def __call__(self, x: Any) -> Any:
        return apply(self, x) if x._array.dtype.kind == "c" else x

    def run_arrays(self, device: Any, *args: Any) -> Any:
        return super().run_arrays(device, *args) if args[0].dtype.kind == "c" else args[0]

    def infer(self, x: Any) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, out: Any) -> None:
        k.conjugate(x, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(conj, grads[0]),)


class Real(ViewOp):
    """The real part: a view."""

    name = "real"
    fresh = True

    def __call__(self, x: Any, *args: Any) -> Any:
        return super().__call__(x, *args) if x._array.dtype.kind == "c" else x

    def view(self, x: Any, *args: Any) -> Any:
        return x.real

    def attrs(self, x: Any, *args: Any) -> Any:
        return x.dtype

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(to_dtype, grads[0], node.op_attrs),)


class Imag(ViewOp):
    """The imaginary part: a view."""

    name = "imag"
    fresh = True

    def __call__(self, x: Any, *args: Any) -> Any:
        if x._array.dtype.kind != "c":
            raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
        return super().__call__(x, *args)

    def view(self, x: Any, *args: Any) -> Any:
        return x.imag

    def attrs(self, x: Any, *args: Any) -> Any:
        return x.dtype

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(rotate, do(to_dtype, grads[0], node.op_attrs), 1j),)


class Rotate(Op):
    """A complex number times ``i`` or ``-i``, exactly."""

    name = "rotate"

    def infer(self, x: Any, factor: complex) -> tuple[Spec, ...]:
        return ((x.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, factor: complex, out: Any) -> None:
        k.multiply(x, factor, out)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(rotate, grads[0], node.op_attrs[0].conjugate()),)


class Complex(Op):
    """The complex numbers of which two real tensors, broadcast to each other, are the parts."""

    name = "complex"
    inputs = 2
    fresh = False  # the parts of one gradient

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        return ((broadcast_shapes("complex", x.shape, y.shape), complex_dtype("complex", x.dtype, y.dtype)),)

    def kernel(self, k: Any, x: Any, y: Any, out: Any) -> None:
        k.copy(x, out.real)
        k.copy(y, out.imag)

    def attrs(self, x: Any, y: Any) -> Any:
        return x.shape, y.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        need_x, need_y = node.needs_grad
        by_x = reduced(do, do(real, grads[0]), node.op_attrs[0]) if need_x else None
        return by_x, reduced(do, do(imag, grads[0]), node.op_attrs[1]) if need_y else None


def complex_dtype(name: str, x: np.dtype[Any], y: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of complex numbers whose two parts have one dtype.

    Raises:
        RuntimeError: for parts of two dtypes, and for others than float32 and float64.
    """
    if x not in (np.float32, np.float64) or y not in (np.float32, np.float64):
        raise RuntimeError(f"{name}: Expected both inputs to be Float or Double tensors but got {x} and {y}")
    if x != y:
        raise RuntimeError(f"{name}: Expected object of scalar type {x} but got scalar type {y} for second argument")
    return np.result_type(x, np.complex64)


class ViewAsReal(ViewOp):
    """The two parts of complex numbers along a new last dimension."""

    name = "view_as_real"

    def view(self, x: Any) -> Any:
        if x.dtype.kind != "c":
            raise RuntimeError(f"view_as_real is only supported for complex tensors, got {x.dtype}")
        return x[..., None].view(x.real.dtype)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (view_as_complex.take(do, grads[0]),)


class ViewAsComplex(ViewOp):
    """The complex numbers whose two parts lie along the last dimension."""

    name = "view_as_complex"

    def view(self, x: Any) -> Any:
        if x.dtype not in (np.float32, np.float64):
            raise RuntimeError(f"view_as_complex is only supported for float and double tensors, but got {x.dtype}")
        if not x.ndim:
            raise RuntimeError("view_as_complex: Input tensor must have one or more dimensions")
        if x.shape[-1] != 2:
            raise RuntimeError(f"view_as_complex: Tensor must have a last dimension of size 2, got {list(x.shape)}")
        if x.strides[-1] != x.itemsize:
            raise RuntimeError("view_as_complex: Tensor must have a last dimension with stride 1")
        if any(step % (2 * x.itemsize) for step in x.strides[:-1]):
            raise RuntimeError("view_as_complex: Tensor must have a stride divisible by 2 for all but last dimension")
        return x.view(np.result_type(x.dtype, np.complex64))[..., 0]

    def take(self, do: Do, x: Any, *args: Any) -> Any:
        try:
            return do(self, x)
        except RuntimeError:
            return do(self, do(clone, x))

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(view_as_real, grads[0]),)


class Conjugated(Record):
    """The twin of a record for complex saved values (note, rule 2)."""

    def __init__(self, op: Record) -> None:
        self.name = op.name
        self.inputs, self.outputs, self.auxiliary = op.inputs, op.outputs, op.auxiliary
        self.saves, self.fresh, self.boxed = op.saves, op.fresh, op.boxed
        self._op = op
        super().__init__()
        self.node_name = op.node_name

    def number(self, node: Any, slot: Any) -> Any:
        return self._op.number(node, slot)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return self._op.backward(do, node, _conjugated(do, saved), *grads)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return self._op.formula(do, node, _conjugated(do, saved), *grads)


def _conjugated(do: Do, saved: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([None if value is None else do(conj, value) for value in saved])


Record.complex_twin = Conjugated

conj = Conj()
real = Real()
imag = Imag()
rotate = Rotate()
complex_ = Complex()
view_as_real = ViewAsReal()
view_as_complex = ViewAsComplex()
