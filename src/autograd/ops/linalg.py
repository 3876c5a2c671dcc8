"""Products of matrices."""

from __future__ import annotations

import math
from typing import Any

from ...kernels import backend
from ...memory import CPU, Device, events
from ..dispatch import Op, cpu_pool
from ..plain import apply_plain, small_result
from ..record import Do, Slot, Spec, broadcast_shapes
from .products import contraction
from .promotion import promote
from .reduce import sum
from .shape import reshape, transpose


class Matmul(Op):
    """The matrix product, with NumPy's and PyTorch's rules for vectors and for batches."""

    name = "matmul"
    inputs = 2
    saves = (Slot("self", 0, needed_for=(1,)), Slot("other", 1, needed_for=(0,)))
    complex_saved = "conjugated"

    def __call__(self, x: Any, y: Any) -> Any:
        return apply_plain(self, (x, y))

    def small(self, x: Any, y: Any) -> Any:
        out = small_result(*self.infer(x, y))
        if out is not None:
            backend("cpu").matmul(x, y, out)
        return out

    def infer(self, x: Any, y: Any) -> tuple[Spec, ...]:
        if x.ndim == y.ndim > 1 and x.shape[:-2] == y.shape[:-2] and x.shape[-1] == y.shape[-2]:
            if x.dtype is y.dtype and x.dtype.kind == "f":  # the usual case, of which nothing else is asked
                return (((*x.shape[:-1], y.shape[-1]), x.dtype),)
        if x.ndim == 0 or y.ndim == 0:
            raise RuntimeError("matmul: both arguments need to be at least 1-dimensional, got a 0-dimensional one")
        if x.dtype != y.dtype:
            raise RuntimeError(f"matmul: expected m1 and m2 to have the same dtype, but got: {x.dtype} != {y.dtype}")
        if x.dtype == bool:
            raise NotImplementedError("matmul: not implemented for bool; convert the tensors first")
        if x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
            raise RuntimeError(
                f"matmul: mat1 and mat2 shapes cannot be multiplied ({list(x.shape)} and {list(y.shape)}): the last"
                " size of the first must be the second last (or only) size of the second"
            )
        batch = broadcast_shapes("matmul", x.shape[:-2], y.shape[:-2])
        return (((*batch, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ())), promote(x.dtype, y.dtype)),)

    def kernel(self, k: Any, x: Any, y: Any, out: Any) -> None:
        k.matmul(x, y, out)

    def attrs(self, x: Any, y: Any) -> Any:
        return x.shape, y.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        (shape_x, shape_y), (grad,) = node.op_attrs, grads
        # As matrices: a vector on the left is a row, on the right a column.
        if len(shape_y) == 1:
            grad = do(reshape, grad, (*grad.shape, 1))
        if len(shape_x) == 1:
            grad = do(reshape, grad, (*grad.shape[:-1], 1, grad.shape[-1]))
        by_x = by_y = None
        if node.needs_grad[0]:
            matrix = do(reshape, y, (*shape_y, 1)) if len(shape_y) == 1 else y
            by_x = _by_operand(do, grad, matrix, shape_x, first=True)
        if node.needs_grad[1]:
            matrix = do(reshape, x, (1, *shape_x)) if len(shape_x) == 1 else x
            by_y = _by_operand(do, grad, matrix, shape_y, first=False)
        return by_x, by_y


def _by_operand(do: Do, grad: Any, other: Any, shape: tuple[int, ...], first: bool) -> Any:
    """The gradient of an operand of a shape: the product with the other one, summed over batches that were broadcast.

    Where there are such, product and sum are one contraction, so that the product of each batch is not written out.
    """
    matrix = shape if len(shape) > 1 else ((1, *shape) if first else (*shape, 1))
    batch = tuple(grad.shape[:-2])
    if matrix[:-2] == batch:
        turned = do(transpose, other, -1, -2)
        made = do(matmul, grad, turned) if first else do(matmul, turned, grad)
        return do(reshape, made, shape) if len(shape) == 1 else made
    mine, others = (_batch_labels(sizes, batch) for sizes in (matrix, other.shape))
    other = do(reshape, other, (*(batch[label] for label in others), *other.shape[-2:]))
    labels, (row, inner, column) = tuple(range(len(batch))), range(len(batch), len(batch) + 3)
    if first:
        made = do(contraction, grad, other, (*labels, row, column), (*others, inner, column), (*mine, row, inner))
    else:
        made = do(contraction, other, grad, (*others, row, inner), (*labels, row, column), (*mine, inner, column))
    return do(reshape, made, shape)


def _batch_labels(shape: tuple[int, ...], batch: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions of a batch that an operand has as they are."""
    missing = len(batch) - (len(shape) - 2)
    return tuple(missing + d for d, size in enumerate(shape[:-2]) if size == batch[missing + d])


class Linear(Op):
    """``x @ weight.T + bias`` with the leading dimensions of ``x`` as rows."""

    name = "linear"
    inputs = 3
    saves = (Slot("input", 0, needed_for=(1,)), Slot("weight", 1, needed_for=(0,)))
    complex_saved = "conjugated"

    def __call__(self, x: Any, weight: Any, bias: Any = None) -> Any:
        return apply_plain(self, (x, weight, bias))

    def small(self, x: Any, weight: Any, bias: Any) -> Any:
        out = small_result(*self.infer(x, weight, bias))
        if out is not None:
            self.kernel(backend("cpu"), x, weight, bias, out)
        return out

    def infer(self, x: Any, weight: Any, bias: Any) -> tuple[Spec, ...]:
        dtype = x.dtype
        if x.ndim and weight.ndim == 2 and x.shape[-1] == weight.shape[1] and dtype is weight.dtype:
            if dtype.kind == "f" and (bias is None or (bias.dtype is dtype and bias.shape == weight.shape[:1])):
                return (((*x.shape[:-1], weight.shape[0]), dtype),)  # the usual case
        if weight.ndim != 2 or x.ndim < 1 or x.shape[-1] != weight.shape[1]:
            raise RuntimeError(
                f"linear: mat1 and mat2 shapes cannot be multiplied: input {list(x.shape)}, weight"
                f" {list(weight.shape)}; the last size of the input must be in_features, the second of the weight"
            )
        if bias is not None and bias.shape != weight.shape[:1]:
            raise RuntimeError(f"linear: expected a bias of shape {[weight.shape[0]]}, got {list(bias.shape)}")
        dtypes = {array.dtype for array in (x, weight, bias) if array is not None}
        if len(dtypes) > 1:
            raise RuntimeError(
                "linear: expected input, weight and bias to have the same dtype, but got"
                f" {', '.join(sorted(map(str, dtypes)))}"
            )
        if x.dtype == bool:
            raise NotImplementedError("linear: not implemented for bool; convert the tensors first")
        return (((*x.shape[:-1], weight.shape[0]), x.dtype),)

    def kernel(self, k: Any, x: Any, weight: Any, bias: Any, out: Any) -> None:
        if x.ndim != 2:
            out = out.reshape(-1, weight.shape[0]) if out.size else out.reshape(0, weight.shape[0])
            x = x.reshape(out.shape[0], weight.shape[1])
        k.linear(x, weight, bias, out)

    def workspace(self, x: Any, weight: Any, bias: Any) -> int:
        """A strided input is copied before the product."""
        return 0 if x.flags.c_contiguous else int(x.nbytes)

    def attrs(self, x: Any, weight: Any, bias: Any) -> Any:
        return x.shape

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        needs_x, needs_weight, needs_bias = needs = node.needs_grad
        by_x, by_weight, by_bias = do(linear_backward, grads[0], *saved, node.op_attrs, needs)
        return by_x if needs_x else None, by_weight if needs_weight else None, by_bias if needs_bias else None

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight = saved
        (grad,) = grads
        needs_x, needs_weight, needs_bias = node.needs_grad
        rows = do(reshape, grad, (math.prod(grad.shape[:-1]), grad.shape[-1]))
        by_x = do(reshape, do(matmul, rows, weight), node.op_attrs) if needs_x else None
        by_weight = None
        if needs_weight:
            inputs = do(reshape, x, (rows.shape[0], node.op_attrs[-1]))
            by_weight = do(matmul, do(transpose, rows, 0, 1), inputs)
        by_bias = do(sum, rows, (0,), False) if needs_bias else None
        return by_x, by_weight, by_bias


class LinearBackward(Op):
    """The gradients of input, weight and bias; those that are not needed are empty."""

    name = "linear_backward"
    inputs = 3
    outputs = 3

    def infer(self, grad: Any, x: Any, weight: Any, shape: tuple[int, ...], needs: Any) -> tuple[Spec, ...]:
        shapes = (shape, (grad.shape[-1], shape[-1]), grad.shape[-1:])
        return tuple([(s if needed else (0,), grad.dtype) for s, needed in zip(shapes, needs, strict=True)])

    def run_arrays(self, device: Device, *args: Any) -> Any:
        """The same, without asking for arrays that nobody needs."""
        if device is not CPU or events.observers:
            return super().run_arrays(device, *args)
        grad, x, weight, shape, needs = args
        pairs, take = zip(self.infer(*args), needs, strict=True), cpu_pool().lease_or_adopt
        outs = [take(*spec, "temporary")[0] if needed else None for spec, needed in pairs]
        self.kernel(backend("cpu"), grad, x, weight, shape, needs, *outs)
        return outs

    def kernel(self, k: Any, grad: Any, x: Any, weight: Any, shape: tuple[int, ...], needs: Any, *outs: Any) -> None:
        grad_x, grad_w, grad_b = [out if needed else None for out, needed in zip(outs, needs, strict=True)]
        if len(shape) != 2:
            rows = math.prod(shape[:-1])
            grad = grad.reshape(rows, grad.shape[-1])
            x = None if x is None else x.reshape(rows, shape[-1])
            grad_x = None if grad_x is None else grad_x.reshape(rows, shape[-1])
        k.linear_backward(grad, x, weight, grad_x, grad_w, grad_b)


matmul = Matmul()
linear = Linear()
linear_backward = LinearBackward()
