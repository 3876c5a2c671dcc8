"""Pooling by the largest element, and what goes with it."""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import numpy as np

from ..dispatch import Op
from ..record import Do, Slot, Spec
from .axis_maps import adaptive_windows
from .promotion import check_floating

Numbers: TypeAlias = tuple[int, ...]
_INT64 = np.dtype(np.int64)


@functools.lru_cache(maxsize=128)
def _unsigned(count: int) -> np.dtype[Any]:
    """The smallest unsigned integer type that has ``count`` numbers."""
    return np.dtype(np.min_scalar_type(max(count - 1, 0)))


class MaxPool(Op):
    """The largest element of each window, and its place in the window, which is all that is saved.

    Called with the input, then the sizes of the result, kernel, stride, padding and dilation.
    """

    name = "max_pool"
    outputs = 2
    saves = (Slot("result1", 1, output=True),)
    flat = True

    def infer(self, x: Any, count: Numbers, kernel: Numbers, *rest: Any) -> tuple[Spec, ...]:
        shape = (*x.shape[: len(x.shape) - len(count)], *count)
        return (shape, x.dtype), (shape, _unsigned(math.prod(kernel)))

    def kernel(self, k: Any, x: Any, *rest: Any) -> None:
        _, kernel, stride, padding, dilation, out, places = rest
        k.max_pool(x, out, places, kernel=kernel, stride=stride, padding=padding, dilation=dilation)

    def attrs(self, x: Any, count: Numbers, *rest: Any) -> Any:
        return x.shape[len(x.shape) - len(count) :], *rest

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(max_pool_backward, grads[0], saved[0], *node.op_attrs),)


class MaxPoolBackward(Op):
    """Zeros with each gradient added where its window found the largest element.

    Called with the gradient and the places, then the sizes of the input, kernel, stride, padding and dilation.
    """

    name = "max_pool_backward"
    inputs = 2
    saves = (Slot("places", 1, needed_for=(0,)),)
    gathers = False

    def infer(self, x: Any, places: Any, size: Numbers, *rest: Any) -> tuple[Spec, ...]:
        return (((*x.shape[: len(x.shape) - len(size)], *size), x.dtype),)

    def kernel(self, k: Any, x: Any, places: Any, *rest: Any) -> None:
        _, kernel, stride, padding, dilation, out = rest
        run = k.max_pool_gather if self.gathers else k.max_pool_backward
        run(x, places, out, kernel=kernel, stride=stride, padding=padding, dilation=dilation)

    def attrs(self, x: Any, places: Any, size: Numbers, *rest: Any) -> Any:
        return x.shape[len(x.shape) - len(size) :], *rest

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        reverse = max_pool_backward if self.gathers else max_pool_gather
        return do(reverse, grads[0], saved[0], *node.op_attrs), None


class MaxPoolGather(MaxPoolBackward):
    """What lies where each window found its largest element; its gradient is `MaxPoolBackward`."""

    name = "max_pool_gather"
    gathers = True


class MaxPoolIndices(Op):
    """Places in windows as the numbers of elements of their plane."""

    name = "max_pool_indices"
    differentiable = False

    def infer(self, places: Any, *rest: Any) -> tuple[Spec, ...]:
        return ((places.shape, _INT64),)

    def kernel(self, k: Any, places: Any, *rest: Any) -> None:
        size, kernel, stride, padding, dilation, out = rest
        k.max_pool_indices(places, out, size=size, kernel=kernel, stride=stride, padding=padding, dilation=dilation)


class _Numbered(Op):
    """Pooling that saves the numbers of the chosen elements in their planes."""

    outputs = 2
    saves = (Slot("result1", 1, output=True),)
    flat = True

    def results(self, x: Any, count: Numbers) -> tuple[Spec, ...]:
        """The specs of values and numbers."""
        check_floating(self.name, x.dtype)
        lead = len(x.shape) - len(count)
        shape = (*x.shape[:lead], *count)
        return (shape, x.dtype), (shape, _unsigned(math.prod(x.shape[lead:])))


class AdaptiveMaxPool(_Numbered):
    """The largest element of each of a given number of windows; called with their numbers."""

    name = "adaptive_max_pool"

    def infer(self, x: Any, count: Numbers) -> tuple[Spec, ...]:
        return self.results(x, count)

    def kernel(self, k: Any, x: Any, count: Numbers, out: Any, indices: Any) -> None:
        sizes = x.shape[len(x.shape) - len(count) :]
        windows = [adaptive_windows(size, results) for size, results in zip(sizes, count, strict=True)]
        k.adaptive_max_pool(x, out, indices, windows=windows)

    def attrs(self, x: Any, count: Numbers) -> Any:
        return x.shape[len(x.shape) - len(count) :]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return (do(plane_scatter_add, grads[0], saved[0], node.op_attrs),)


class FractionalMaxPool(_Numbered):
    """The largest element of windows at random distances; called with the sizes of the result and of the windows."""

    name = "fractional_max_pool"
    inputs = 2

    def infer(self, x: Any, samples: Any, count: Numbers, kernel: Numbers) -> tuple[Spec, ...]:
        return self.results(x, count)

    def kernel(self, k: Any, x: Any, samples: Any, count: Numbers, kernel: Numbers, out: Any, indices: Any) -> None:
        k.fractional_max_pool(x, samples, out, indices, kernel=kernel)

    def attrs(self, x: Any, samples: Any, count: Numbers, kernel: Numbers) -> Any:
        return x.shape[2:]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(plane_scatter_add, grads[0], saved[0], node.op_attrs), None


class PlaneGather(Op):
    """Elements of planes by number; called with the number of dimensions of a plane."""

    name = "plane_gather"
    inputs = 2
    saves = (Slot("indices", 1, needed_for=(0,)),)

    def infer(self, x: Any, indices: Any, axes: int) -> tuple[Spec, ...]:
        return ((indices.shape, x.dtype),)

    def kernel(self, k: Any, x: Any, indices: Any, axes: int, out: Any) -> None:
        k.plane_gather(x, indices, out, axes=axes)

    def attrs(self, x: Any, indices: Any, axes: int) -> Any:
        return x.shape[len(x.shape) - axes :]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(plane_scatter_add, grads[0], saved[0], node.op_attrs), None


class PlaneScatterAdd(Op):
    """Zeros with elements added by number, plane by plane; called with the sizes of a plane."""

    name = "plane_scatter_add"
    inputs = 2
    saves = (Slot("indices", 1, needed_for=(0,)),)

    def infer(self, x: Any, indices: Any, size: Numbers) -> tuple[Spec, ...]:
        return (((*x.shape[: len(x.shape) - len(size)], *size), x.dtype),)

    def kernel(self, k: Any, x: Any, indices: Any, size: Numbers, out: Any) -> None:
        k.plane_scatter_add(x, indices, out, axes=len(size))

    def attrs(self, x: Any, indices: Any, size: Numbers) -> Any:
        return len(size)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        return do(plane_gather, grads[0], saved[0], node.op_attrs), None


class MaxUnpool(PlaneScatterAdd):
    """Zeros with elements put in by number, plane by plane: a partial inverse of `MaxPool`."""

    name = "max_unpool"

    def kernel(self, k: Any, x: Any, indices: Any, size: Numbers, out: Any) -> None:
        k.plane_scatter(x, indices, out, axes=len(size))


max_pool = MaxPool()
max_pool_backward = MaxPoolBackward()
max_pool_gather = MaxPoolGather()
max_pool_indices = MaxPoolIndices()
adaptive_max_pool = AdaptiveMaxPool()
fractional_max_pool = FractionalMaxPool()
plane_gather = PlaneGather()
plane_scatter_add = PlaneScatterAdd()
max_unpool = MaxUnpool()
