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

from ..dispatch import Op, apply
from ..record import Do, Record, Spec
from ..view_op import ViewOp
from .cast import to_dtype


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
