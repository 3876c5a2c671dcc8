"""Batch norm and group norm: what is saved is the input and two numbers for all that is normalised together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..dispatch import apply
from ..record import Do, Slot, Spec
from ..whole import FewOp, apply_together
from .elementwise import add, mul, rsqrt, square, sub
from .norm_formula import affine_gradients
from .norm_small import norm_of_sets, norm_of_sets_backward
from .promotion import check_floating
from .reduce import mean
from .reduce import sum as sum_over

_MEAN, _VARIANCE = Slot("result1", 1, output=True), Slot("result2", 2, output=True)


def _check_numbers(name: str, x: Any, channels: int, **numbers: Any) -> None:
    for argument, array in numbers.items():
        if array is None:
            continue
        if tuple(array.shape) != (channels,):
            raise RuntimeError(
                f"{name}: expected {argument} to be a vector of size equal to the number of channels in input, but got"
                f" {argument} of shape {list(array.shape)} and input of shape {list(x.shape)}"
            )
        if array.dtype != x.dtype:
            raise RuntimeError(f"{name}: expected {argument} of the input's dtype {x.dtype}, but got {array.dtype}")


def _flat(x: Any) -> Any:
    """An array (samples, channels, *) with one dimension for the places."""
    return x.reshape(x.shape[0], x.shape[1], math.prod(x.shape[2:]))


def _sets(x: Any) -> tuple[int, ...]:
    """The shape (samples, channels, 1, places) of what batch norm normalises."""
    return x.shape[0], x.shape[1], 1, math.prod(x.shape[2:])


def _copied(x: Any) -> int:
    """Bytes of the copy that is made of a strided input."""
    return 0 if x.flags.c_contiguous else int(x.nbytes)


class _ChannelNorm(FewOp):
    """What the two batch norms share: three results, of which mean and variance have no gradient."""

    outputs = 3
    given = False

    def infer(self, x: Any, weight: Any, bias: Any, *rest: Any) -> tuple[Spec, ...]:
        check_floating("batch_norm", x.dtype)
        if x.ndim < 2:
            raise RuntimeError(f"batch_norm: expected at least 2 dimensions (samples, channels), got {list(x.shape)}")
        _check_numbers("batch_norm", x, x.shape[1], weight=weight, bias=bias)
        numbers = ((x.shape[1],), x.dtype)
        return (x.shape, x.dtype), numbers, numbers

    def workspace(self, x: Any, *rest: Any) -> int:
        return _copied(x)

    def attrs(self, x: Any, *rest: Any) -> Any:
        return (rest[-1],)

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight, mu, variance = saved
        needs = node.needs_grad[:3]
        results = do(batch_norm_backward, grads[0], x, weight, mu, variance, node.op_attrs[0], needs, self.given)
        found = tuple(result if needed else None for result, needed in zip(results, needs, strict=True))
        return found + (None,) * (len(node.needs_grad) - 3)

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        x, weight = saved[:2]
        mu, variance = (numbers.detach() for numbers in saved[2:])
        (grad,), (eps,) = grads[:1], node.op_attrs
        dims = (0, *range(2, len(grad.shape)))

        def along(numbers: Any) -> Any:
            return numbers.reshape(1, -1, *(1,) * (len(grad.shape) - 2))

        def normal(x: Any) -> Any:
            centred = sub(x, along(mu) if self.given else mean(x, dims, True))
            spread = along(variance) if self.given else mean(square(centred), dims, True)
            return mul(centred, rsqrt(add(spread, eps)))

        def total(grad: Any) -> Any:
            return do(sum_over, grad, dims, False)

        if self.given and x is None and node.needs_grad[0]:  # linear in the input, which was not saved
            scaled = grad if weight is None else do(mul, grad, along(weight))
            by_x = do(mul, scaled, along(rsqrt(add(variance, eps))))
            return by_x, None, total(grad) if node.needs_grad[2] else None, None, None
        found = affine_gradients(do, normal, (x, weight), node.needs_grad, grad, along, total)
        return found + (None,) * (len(node.needs_grad) - 3)


class BatchNorm(_ChannelNorm):
    """Zero mean and unit variance of each channel, then a scale and a shift; also mean and variance.

    Source: Ioffe and Szegedy, Batch Normalization, 2015.
    """

    name = "native_batch_norm"
    inputs = 3
    saves = (Slot("input", 0, needed_for=(0, 1)), Slot("weight", 1, needed_for=(0,)), _MEAN, _VARIANCE)

    def __call__(self, x: Any, weight: Any, bias: Any, eps: float) -> Any:
        return apply_together(self, x, weight, bias, float(eps))

    def small_marked(self, x: Any, weight: Any, bias: Any, eps: float) -> tuple[Any, ...]:
        weight, bias = (numbers if numbers is None else numbers[:, None] for numbers in (weight, bias))
        return norm_of_sets(x, _sets(x), weight, bias, x.shape[1:2], eps)

    def kernel(self, k: Any, x: Any, weight: Any, bias: Any, eps: float, out: Any, mu: Any, variance: Any) -> None:
        if self.fills((x, weight, bias, eps), (out, mu, variance)):
            return
        k.batch_norm(_flat(x), weight, bias, _flat(out), mu, variance, eps=eps, given=False)


class BatchNormGiven(_ChannelNorm):
    """The same with mean and variance from elsewhere: a scale and a shift, whose gradient reads no input.

    Copies of the two numbers a channel are kept, so that the running ones may change.
    """

    name = "batch_norm_given"
    inputs = 5
    given = True
    saves = (Slot("input", 0, needed_for=(1,)), Slot("weight", 1, needed_for=(0,)), _MEAN, _VARIANCE)

    def __call__(self, x: Any, weight: Any, bias: Any, mu: Any, variance: Any, eps: float) -> Any:
        return apply(self, x, weight, bias, mu, variance, float(eps))

    def infer(self, x: Any, weight: Any, bias: Any, *rest: Any) -> tuple[Spec, ...]:
        specs = super().infer(x, weight, bias, *rest)
        _check_numbers("batch_norm", x, x.shape[1], running_mean=rest[0], running_var=rest[1])
        return specs

    def kernel(
        self, k: Any, x: Any, weight: Any, bias: Any, mu: Any, variance: Any, eps: float, out: Any, *kept: Any
    ) -> None:
        k.copy(mu, kept[0])
        k.copy(variance, kept[1])
        k.batch_norm(_flat(x), weight, bias, _flat(out), *kept, eps=eps, given=True)


class BatchNormBackward(FewOp):
    """The fused gradients of both; results that are not needed are empty."""

    name = "native_batch_norm_backward"
    inputs = 5
    outputs = 3

    def infer(
        self, grad: Any, x: Any, weight: Any, mu: Any, variance: Any, eps: float, needs: Any, given: bool
    ) -> tuple[Spec, ...]:
        shapes = (grad.shape, mu.shape, mu.shape)
        return tuple((shape if needed else (0,), grad.dtype) for shape, needed in zip(shapes, needs, strict=True))

    def workspace(self, grad: Any, *rest: Any) -> int:
        return _copied(grad)

    def kernel(
        self,
        k: Any,
        grad: Any,
        x: Any,
        weight: Any,
        mu: Any,
        variance: Any,
        eps: float,
        needs: Any,
        given: bool,
        *outs: Any,
    ) -> None:
        if self.fills((grad, x, weight, mu, variance, eps, needs, given), outs):
            return
        by_x, by_weight, by_bias = [out if needed else None for out, needed in zip(outs, needs, strict=True)]
        rows, by_rows = None if x is None else _flat(x), None if by_x is None else _flat(by_x)
        k.batch_norm_backward(
            _flat(grad), rows, weight, mu, variance, by_rows, by_weight, by_bias, eps=eps, given=given
        )

    def small_marked(
        self, grad: Any, x: Any, weight: Any, mu: Any, variance: Any, eps: float, needs: Any, given: bool
    ) -> tuple[Any, ...] | None:
        if given:
            return None
        weight = None if weight is None else weight[:, None]
        return norm_of_sets_backward(grad, x, _sets(grad), weight, mu, variance, eps, needs)


# -- groups of channels ------------------------------------------------------------------------------------------------


class GroupNorm(FewOp):
    """Zero mean and unit variance of each group of channels of each sample, then a scale and a shift a channel.

    Source: Wu and He, Group Normalization, 2018; with a group a channel Ulyanov, Vedaldi and Lempitsky, Instance
    Normalization, 2016.
    """

    name = "native_group_norm"
    inputs = 3
    outputs = 3
    saves = (Slot("input", 0, needed_for=(0, 1)), Slot("weight", 1, needed_for=(0,)), _MEAN, _VARIANCE)

    def __call__(self, x: Any, groups: int, weight: Any, bias: Any, eps: float) -> Any:
        return apply_together(self, x, weight, bias, int(groups), float(eps))

    def infer(self, x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple[Spec, ...]:
        check_floating("group_norm", x.dtype)
        if x.ndim < 2:
            raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {x.ndim}")
        if groups < 1 or x.shape[1] % groups:
            raise RuntimeError(
                "Expected number of channels in input to be divisible by num_groups, but got input of shape"
                f" {list(x.shape)} and num_groups={groups}"
            )
        _check_numbers("group_norm", x, x.shape[1], weight=weight, bias=bias)
        numbers = ((x.shape[0], groups), x.dtype)
        return (x.shape, x.dtype), numbers, numbers

    def kernel(
        self, k: Any, x: Any, weight: Any, bias: Any, groups: int, eps: float, out: Any, mu: Any, variance: Any
    ) -> None:
        if self.fills((x, weight, bias, groups, eps), (out, mu, variance)):
            return
        parts = [_parted(array, groups) for array in (weight, bias)]
        k.group_norm(_grouped(x, groups), *parts, _grouped(out, groups), mu, variance, eps=eps)

    def small_marked(self, x: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple[Any, ...]:
        weight, bias = (_for_groups(numbers, len(x), groups) for numbers in (weight, bias))
        return norm_of_sets(x, _groups_as_sets(x, groups), weight, bias, (len(x), groups), eps)

    def workspace(self, x: Any, *rest: Any) -> int:
        return _copied(x)

    def attrs(self, x: Any, weight: Any, bias: Any, groups: int, eps: float) -> Any:
        return groups, eps

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        needs = node.needs_grad
        results = do(group_norm_backward, grads[0], *saved, *node.op_attrs, needs)
        return tuple(result if needed else None for result, needed in zip(results, needs, strict=True))

    def formula(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        (grad,), (groups, eps) = grads[:1], node.op_attrs
        shape = tuple(grad.shape)

        def along(numbers: Any) -> Any:
            return numbers.reshape(1, -1, *(1,) * (len(shape) - 2))

        def normal(x: Any) -> Any:
            rows = x.reshape(shape[0], groups, shape[1] // groups * math.prod(shape[2:]))
            centred = sub(rows, mean(rows, (2,), True))
            return mul(centred, rsqrt(add(mean(square(centred), (2,), True), eps))).reshape(shape)

        def total(grad: Any) -> Any:
            return do(sum_over, grad, (0, *range(2, len(shape))), False)

        return affine_gradients(do, normal, saved[:2], node.needs_grad, grad, along, total)


def _grouped(x: Any, groups: int) -> Any:
    """An array as (samples, groups, channels of a group, places)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, math.prod(x.shape[2:]))


def _parted(numbers: Any, groups: int) -> Any:
    return None if numbers is None else numbers.reshape(groups, len(numbers) // groups)


def _groups_as_sets(x: Any, groups: int) -> tuple[int, ...]:
    """The shape (1, groups of all samples, channels of a group, places) of what group norm normalises."""
    return 1, len(x) * groups, x.shape[1] // groups, math.prod(x.shape[2:])


def _for_groups(numbers: Any, samples: int, groups: int) -> Any:
    """Numbers of the channels for the groups of all samples, (groups of all samples, channels of a group)."""
    if numbers is None:
        return None
    return np.broadcast_to(numbers, (samples, len(numbers))).reshape(samples * groups, -1)


class GroupNormBackward(FewOp):
    """The fused gradients; results that are not needed are empty."""

    name = "native_group_norm_backward"
    inputs = 5
    outputs = 3

    def infer(
        self, grad: Any, x: Any, weight: Any, mu: Any, variance: Any, groups: int, eps: float, needs: Any
    ) -> tuple[Spec, ...]:
        shapes = (grad.shape, grad.shape[1:2], grad.shape[1:2])
        return tuple((shape if needed else (0,), grad.dtype) for shape, needed in zip(shapes, needs, strict=True))

    def workspace(self, grad: Any, *rest: Any) -> int:
        return _copied(grad)

    def kernel(
        self,
        k: Any,
        grad: Any,
        x: Any,
        weight: Any,
        mu: Any,
        variance: Any,
        groups: int,
        eps: float,
        needs: Any,
        *outs: Any,
    ) -> None:
        if self.fills((grad, x, weight, mu, variance, groups, eps, needs), outs):
            return
        by_x = _grouped(outs[0], groups) if needs[0] else None
        by_numbers = [_parted(out, groups) if needed else None for out, needed in zip(outs[1:], needs[1:], strict=True)]
        rows = [None if array is None else _grouped(array, groups) for array in (grad, x)]
        k.group_norm_backward(*rows, _parted(weight, groups), mu, variance, by_x, *by_numbers, eps=eps)

    def small_marked(
        self, grad: Any, x: Any, weight: Any, mu: Any, variance: Any, groups: int, eps: float, needs: Any
    ) -> tuple[Any, ...]:
        sets, weight = _groups_as_sets(grad, groups), _for_groups(weight, len(grad), groups)
        return norm_of_sets_backward(grad, x, sets, weight, mu, variance, eps, needs)


batch_norm = BatchNorm()
batch_norm_given = BatchNormGiven()
batch_norm_backward = BatchNormBackward()
group_norm = GroupNorm()
group_norm_backward = GroupNormBackward()
