"""Convolutions of any number of dimensions."""

from __future__ import annotations

import functools
from typing import Any, TypeAlias

from ..dispatch import Op
from ..plain import apply_plain
from ..record import Do, Slot, Spec
from .reduce import sum
from .shape import reshape

Numbers: TypeAlias = tuple[int, ...]
# Of input, weight and bias.
Shapes: TypeAlias = tuple[Numbers, Numbers, Numbers | None]


class Convolution(Op):
    """A convolution, or a transposed one: the gradient of one by its input is the other.

    Called with the input (samples, channels, *size), the weight, the bias or None, then stride, padding (before the
    first element), dilation, whether it is transposed, the spatial sizes of the result, and the number of groups.
    """

    name = "convolution"
    inputs = 3
    saves = (Slot("input", 0, needed_for=(1,)), Slot("weight", 1, needed_for=(0,)))
    complex_saved = "conjugated"

    def infer(self, x: Any, weight: Any, bias: Any, *attrs: Any) -> tuple[Spec, ...]:
        _, _, _, transposed, size, groups = attrs
        channels = weight.shape[1] * groups if transposed else weight.shape[0]
        return (((x.shape[0], channels, *size), x.dtype),)

    def kernel(self, k: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> None:
        stride, padding, dilation, transposed, _, groups, out = rest
        run = k.convolution_transposed if transposed else k.convolution
        run(x, weight, bias, out, stride=stride, padding=padding, dilation=dilation, groups=groups)

    def attrs(self, x: Any, weight: Any, bias: Any, *attrs: Any) -> Any:
        return attrs, x.shape[2:], weight.shape[2:]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight = saved
        (stride, padding, dilation, transposed, _, groups), size, kernel = node.op_attrs
        (grad,) = grads
        needs_x, needs_weight, needs_bias = node.needs_grad
        by_x = by_weight = by_bias = None
        if needs_x:
            by_x = do(convolution, grad, weight, None, stride, padding, dilation, not transposed, size, groups)
        if needs_weight:
            images, results = (grad, x) if transposed else (x, grad)
            by_weight = do(convolution_backward_weight, images, results, kernel, stride, padding, dilation, groups)
        if needs_bias:
            by_bias = do(sum, grad, (0, *range(2, len(grad.shape))), False)
        return by_x, by_weight, by_bias


class ConvolutionBackwardWeight(Op):
    """The gradient of the weight, from the images that windows slid over and the gradients of the results.

    Called with both, then the kernel's sizes, stride, padding, dilation, and the number of groups.
    """

    name = "convolution_backward_weight"
    inputs = 2
    saves = (Slot("input", 0, needed_for=(1,)), Slot("grad_output", 1, needed_for=(0,)))
    complex_saved = "conjugated"

    def infer(self, x: Any, y: Any, kernel: Numbers, *rest: Any) -> tuple[Spec, ...]:
        return (((y.shape[1], x.shape[1] // rest[-1], *kernel), x.dtype),)

    def kernel(self, k: Any, x: Any, y: Any, *rest: Any) -> None:
        _, stride, padding, dilation, groups, out = rest
        k.convolution_backward_weight(x, y, out, stride=stride, padding=padding, dilation=dilation, groups=groups)

    def attrs(self, x: Any, y: Any, *attrs: Any) -> Any:
        return attrs[1:], x.shape[2:], y.shape[2:]

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, y = saved
        (stride, padding, dilation, groups), size, count = node.op_attrs
        (grad,) = grads
        by_x = by_y = None
        if node.needs_grad[0]:
            by_x = do(convolution, y, grad, None, stride, padding, dilation, True, size, groups)
        if node.needs_grad[1]:
            by_y = do(convolution, x, grad, None, stride, padding, dilation, False, count, groups)
        return by_x, by_y


# -- calls with PyTorch's arguments ------------------------------------------------------------------------------------


def numbers(name: str, argument: str, value: Any, dims: int, least: int | None = None) -> Numbers:
    """A number for each dimension, from one for all or from a sequence.

    Raises:
        RuntimeError: if there are too many or too few, or one is below ``least``.
        TypeError: if they are no whole numbers.
    """
    if type(value) is int and (least is None or value >= least):
        return (value,) * dims
    if type(value) is tuple and len(value) == dims:
        for number in value:
            if type(number) is not int or (least is not None and number < least):
                break
        else:
            return value
    given = (value,) if not isinstance(value, tuple | list) else tuple(value)
    if not all(hasattr(number, "__index__") and not isinstance(number, bool) for number in given):
        raise TypeError(f"{name}(): argument '{argument}' must be tuple of ints, not {value!r}")
    if len(given) == 1:
        given *= dims
    if len(given) != dims:
        raise RuntimeError(
            f"{name}: expected {argument} to be a single integer value or a list of {dims} values, but got"
            f" {argument}={list(given)}"
        )
    if least is not None and any(number < least for number in given):
        raise RuntimeError(f"{name}: expected {argument} of at least {least}, but got {list(given)}")
    return tuple(int(number) for number in given)


def convolve(name: str, dims: int, x: Any, weight: Any, bias: Any, *args: Any) -> Any:
    """A convolution: stride, padding (numbers, ``"same"`` or ``"valid"``), dilation, groups.

    Raises:
        RuntimeError: for arguments that do not fit.
    """
    stride, padding, dilation, groups = args
    stride, dilation = numbers(name, "stride", stride, dims, 1), numbers(name, "dilation", dilation, dims, 1)
    shapes = _checked_shapes(name, x, weight, bias)
    if not isinstance(padding, str):
        padding = numbers(name, "padding", padding, dims, 0)
    before, count = _windows(name, dims, shapes, groups, stride, padding, dilation)
    return _batched(x, weight, bias, dims, stride, before, dilation, False, count, groups)


@functools.lru_cache(maxsize=128)
def _windows(
    name: str, dims: int, shapes: Shapes, groups: int, stride: Numbers, padding: Numbers | str, dilation: Numbers
) -> tuple[Numbers, Numbers]:
    """The padding before the first element, and the number of windows along each dimension."""
    _check(name, dims, shapes, groups, transposed=False)
    size, kernel = shapes[0][-dims:], shapes[1][2:]
    spread = tuple(step * (places - 1) for step, places in zip(dilation, kernel, strict=True))
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"{name}: Invalid padding string: '{padding}'; expected 'same', 'valid' or numbers")
        if padding == "same" and any(step != 1 for step in stride):
            raise RuntimeError(f"{name}: padding='same' is not supported for strided convolutions")
        total = spread if padding == "same" else (0,) * dims
        before = tuple(both // 2 for both in total)
    else:
        before = padding
        total = tuple(2 * pad for pad in before)
    padded = tuple(length + both for length, both in zip(size, total, strict=True))
    if any(length < reach + 1 for length, reach in zip(padded, spread, strict=True)):
        raise RuntimeError(
            f"{name}: Calculated padded input size per channel: ({_times(padded)}). Kernel size: ({_times(kernel)})"
            f" with dilation ({_times(dilation)}). Kernel size can't be greater than actual input size"
        )
    return before, tuple(
        (length - reach - 1) // step + 1 for length, reach, step in zip(padded, spread, stride, strict=True)
    )


def convolve_transposed(name: str, dims: int, x: Any, weight: Any, bias: Any, *args: Any) -> Any:
    """A transposed convolution: stride, padding, output_padding, groups, dilation.

    Raises:
        RuntimeError: for arguments that do not fit.
    """
    stride, padding, extra, groups, dilation = args
    stride, dilation = numbers(name, "stride", stride, dims, 1), numbers(name, "dilation", dilation, dims, 1)
    padding, extra = numbers(name, "padding", padding, dims, 0), numbers(name, "output_padding", extra, dims, 0)
    shapes = _checked_shapes(name, x, weight, bias)
    result = _reversed_size(name, dims, shapes, groups, stride, padding, extra, dilation)
    return _batched(x, weight, bias, dims, stride, padding, dilation, True, result, groups)


@functools.lru_cache(maxsize=128)
def _reversed_size(
    name: str,
    dims: int,
    shapes: Shapes,
    groups: int,
    stride: Numbers,
    padding: Numbers,
    extra: Numbers,
    dilation: Numbers,
) -> Numbers:
    """The spatial sizes of the result of a transposed convolution."""
    _check(name, dims, shapes, groups, transposed=True)
    size, kernel = shapes[0][-dims:], shapes[1][2:]
    if any(more >= max(step, spread) for more, step, spread in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"{name}: output padding must be smaller than either stride or dilation, but got output_padding"
            f" {list(extra)}, stride {list(stride)}, dilation {list(dilation)}"
        )
    result = tuple(
        (size[d] - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel[d] - 1) + extra[d] + 1 for d in range(dims)
    )
    if any(length < 1 for length in result):
        raise RuntimeError(
            f"{name}: Given input size per channel: ({_times(size)}). Calculated output size per channel:"
            f" ({_times(result)}). Output size is too small"
        )
    return result


def _batched(x: Any, weight: Any, bias: Any, dims: int, *attrs: Any) -> Any:
    """Run on a batch, or on a batch of one for an input without the dimension of samples."""
    if x._array.ndim == dims + 2:
        return apply_plain(convolution, (x, weight, bias), *attrs)
    out = apply_plain(convolution, (reshape(x, (1, *x._array.shape)), weight, bias), *attrs)
    return reshape(out, out._array.shape[1:])


def _checked_shapes(name: str, x: Any, weight: Any, bias: Any) -> Shapes:
    """The shapes of tensors of one dtype."""
    for argument, tensor in (("input", x), ("weight", weight), ("bias", bias)):
        if not hasattr(tensor, "_array") and not (tensor is None and argument == "bias"):
            raise TypeError(f"{name}(): argument '{argument}' must be Tensor, not {type(tensor).__name__}")
    dtype = x._array.dtype
    if weight._array.dtype != dtype or (bias is not None and bias._array.dtype != dtype):
        found = {str(tensor._array.dtype) for tensor in (x, weight, bias) if tensor is not None}
        raise RuntimeError(
            f"{name}: input, weight and bias should have the same dtype, but got {', '.join(sorted(found))}"
        )
    if dtype.kind == "b":
        raise NotImplementedError(f"{name}: not implemented for bool; convert the tensors first")
    return x._array.shape, weight._array.shape, None if bias is None else bias._array.shape


def _check(name: str, dims: int, shapes: Shapes, groups: int, *, transposed: bool) -> None:
    shape, kernel, of_bias = shapes
    if groups < 1:
        raise RuntimeError(f"{name}: expected groups to be greater than 0, but got groups={groups}")
    if len(kernel) != dims + 2:
        raise RuntimeError(f"{name}: expected a weight of {dims + 2} dimensions, but got weight of size {list(kernel)}")
    if len(shape) not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of size:"
            f" {list(shape)}"
        )
    if kernel[0] % groups or kernel[0] < groups:
        raise RuntimeError(
            f"{name}: Given groups={groups}, expected weight to be at least {groups} at dimension 0 and divisible by"
            f" it, but got weight of size {list(kernel)} instead"
        )
    wanted = kernel[0] if transposed else kernel[1] * groups
    if shape[-dims - 1] != wanted:
        raise RuntimeError(
            f"{name}: Given groups={groups}, weight of size {list(kernel)}, expected input{list(shape)} to have"
            f" {wanted} channels, but got {shape[-dims - 1]} channels instead"
        )
    if any(size == 0 for size in kernel[2:]) or (any(size == 0 for size in shape[-dims:]) and transposed):
        raise RuntimeError(
            f"{name}: sizes must be greater than zero, but got input {list(shape)} and weight {list(kernel)}"
        )
    features = kernel[1] * groups if transposed else kernel[0]
    if of_bias not in (None, (features,)):
        raise RuntimeError(
            f"{name}: Given weight of size {list(kernel)}, expected bias to be 1-dimensional with {features} elements,"
            f" but got bias of size {list(of_bias or ())} instead"
        )


def _times(sizes: Numbers) -> str:
    return " x ".join(map(str, sizes))


convolution = Convolution()
convolution_backward_weight = ConvolutionBackwardWeight()
