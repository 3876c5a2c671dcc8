"""Windows of images as columns, and columns added back into images: each the derivative of the other."""

from __future__ import annotations

from typing import Any, TypeAlias

from ..dispatch import Op
from ..record import Do, Spec

Numbers: TypeAlias = tuple[int, ...]


class Im2col(Op):
    """Windows as columns; called with images (N, C, *size), then their sizes, the counts of windows, kernel, stride,
    padding and dilation.
    """

    name = "im2col"
    gathers = True

    def infer(self, x: Any, size: Numbers, count: Numbers, kernel: Numbers, *rest: Any) -> tuple[Spec, ...]:
        places = windows = 1
        for number in kernel:
            places *= number
        for number in count:
            windows *= number
        if self.gathers:
            return (((x.shape[0], x.shape[1] * places, windows), x.dtype),)
        return (((x.shape[0], x.shape[1] // places, *size), x.dtype),)

    def kernel(self, k: Any, x: Any, size: Numbers, count: Numbers, *rest: Any) -> None:
        kernel, stride, padding, dilation, out = rest
        run = k.im2col if self.gathers else k.col2im
        run(x, out, count=count, kernel=kernel, stride=stride, padding=padding, dilation=dilation)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(col2im if self.gathers else im2col, grads[0], *node.op_attrs),)


class Col2im(Im2col):
    """Columns added back into images; called with columns (N, C * places, windows), then as `Im2col`."""

    name = "col2im"
    gathers = False


im2col = Im2col()
col2im = Col2im()
