"""Sums of products over named axes."""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops import reduce, shape, view
from ..ops.products import Labels, contraction

__all__ = ["einsum"]

_LETTERS = string.ascii_uppercase + string.ascii_lowercase
_ELLIPSIS = -1  # in lists of labels, for any number of axes
_ELLIPSIS_AXES = 1000  # labels of those axes count from here, the last axis first


def einsum(*args: Any) -> Any:
    """The sum of products of tensors over axes that are named by letters: ``einsum("bij,bjk->bik", x, y)``.

    Tensors are contracted two at a time, for more than two in an order that keeps what comes in between small. Each
    pair is one matrix product, and its gradient two of the same kind: no product is formed before it is summed.

    Args:
        args: an equation and the tensors, or in turn a tensor and the list of its axes' numbers (below 52), then the
            list for the result or nothing. ``...`` (or Ellipsis) stands for the axes without a name, which are
            broadcast. A letter that stands twice in an operand takes the diagonal. Without ``->``, the result has the
            letters that stand once, in alphabetical order.

    Raises:
        RuntimeError: if the equation can't be read, or does not fit the operands.

    >>> import stowgrad
    >>> x = stowgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> stowgrad.einsum("ii", x), stowgrad.einsum("ij->j", x)
    (tensor(5.), tensor([4., 6.]))
    """
    operands, inputs, output = _from_equation(args) if args and isinstance(args[0], str) else _from_lists(args)
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    named = [_named(number, x, labels) for number, (x, labels) in enumerate(zip(operands, inputs, strict=True))]
    if output is None:
        every = [label for labels in named for label in labels]
        free = sorted({label for label in every if label >= _ELLIPSIS_AXES}, reverse=True)
        result = (*free, *sorted(label for label in set(every) if label < _ELLIPSIS_AXES and every.count(label) == 1))
    else:
        result = _named_result(output, tuple(named))
    return contracted(list(operands), named, result)


# -- reading -----------------------------------------------------------------------------------------------------------


def _from_equation(args: tuple[Any, ...]) -> tuple[Sequence[Any], Sequence[Labels], Labels | None]:
    equation, operands = args[0], args[1:]
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    inputs, output = _read(equation)
    if len(inputs) != len(operands):
        raise RuntimeError(
            f"einsum(): the equation {equation!r} is for {len(inputs)} operands, but {len(operands)} were given"
        )
    return operands, inputs, output


@functools.lru_cache(maxsize=256)
def _read(equation: str) -> tuple[tuple[Labels, ...], Labels | None]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = tuple(_letters(part, equation) for part in left.split(","))
    return inputs, _letters(right, equation) if arrow else None


def _letters(part: str, equation: str) -> Labels:
    before, dots, after = part.partition("...")
    found = [_LETTERS.find(letter) for letter in before + after]
    if -1 in found:
        wrong = next(letter for letter in before + after if letter not in _LETTERS)
        raise RuntimeError(
            f"einsum(): invalid subscript given in the equation {equation!r}: {wrong!r}; subscripts must be letters in"
            " [a-zA-Z], and '...' at most once for an operand"
        )
    return (*found[: len(before)], *([_ELLIPSIS] if dots else []), *found[len(before) :])


def _from_lists(args: tuple[Any, ...]) -> tuple[Sequence[Any], Sequence[Labels], Labels | None]:
    pairs, rest = args[: len(args) // 2 * 2], args[len(args) // 2 * 2 :]
    lists = [*pairs[1::2], *rest]
    for labels in lists:
        for label in labels:
            if label is not Ellipsis and not 0 <= label < len(_LETTERS):
                raise ValueError(f"einsum(): subscripts in lists must be in the range [0, 52), got {label}")
    read = [tuple(_ELLIPSIS if label is Ellipsis else int(label) for label in labels) for labels in lists]
    return pairs[::2], read[: len(pairs) // 2], read[-1] if rest else None


def _named(number: int, x: Any, labels: Labels) -> Labels:
    """A label for each axis."""
    if _ELLIPSIS not in labels and x._array.ndim == len(labels):
        return labels
    free = x._array.ndim - len(labels) + (_ELLIPSIS in labels)
    if free < 0 or (free and _ELLIPSIS not in labels):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(labels)}) does not match the number of"
            f" dimensions ({x._array.ndim}) for operand {number}" + ("" if free < 0 else " and no ellipsis was given")
        )
    axes = range(_ELLIPSIS_AXES + free - 1, _ELLIPSIS_AXES - 1, -1)
    return tuple(name for label in labels for name in (axes if label == _ELLIPSIS else (label,)))


@functools.lru_cache(maxsize=256)
def _named_result(output: Labels, inputs: tuple[Labels, ...]) -> Labels:
    known = {label for labels in inputs for label in labels}
    for label in output:
        if output.count(label) > 1:
            raise RuntimeError(f"einsum(): output subscript {_LETTERS[label]} appears more than once in the output")
        if label != _ELLIPSIS and label not in known:
            raise RuntimeError(
                f"einsum(): output subscript {_LETTERS[label]} does not appear in the equation for any input operand"
            )
    free = sorted((label for label in known if label >= _ELLIPSIS_AXES), reverse=True)
    return tuple(name for label in output for name in (free if label == _ELLIPSIS else (label,)))


# -- contracting -------------------------------------------------------------------------------------------------------


def contracted(operands: list[Any], inputs: list[Labels], result: Labels) -> Any:
    """The sum of the products of tensors whose axes have labels, over the labels that the result lacks."""
    if len(operands) == 2 and _is_one_product(operands, inputs, result):
        return contraction(operands[0], operands[1], inputs[0], inputs[1], result)
    sizes = _sizes(operands, inputs)
    prepared = [_prepared(x, labels, sizes) for x, labels in zip(operands, inputs, strict=True)]
    for first, second in _path(prepared, result, sizes):
        y, x = prepared.pop(max(first, second)), prepared.pop(min(first, second))
        kept = {*result}.union(*(labels for _, labels in prepared))
        left, right = (_summed(*pair, kept.union(other[1])) for pair, other in ((x, y), (y, x)))
        labels = tuple(label for label in dict.fromkeys((*left[1], *right[1])) if label in kept)
        labels = labels if prepared else tuple(label for label in result if label in labels)
        prepared.append((contraction(left[0], right[0], left[1], right[1], labels), labels))
    x, labels = _summed(*prepared[0], set(result))
    return shape.permute(x, tuple(labels.index(label) for label in result)) if labels != result else x


def _is_one_product(operands: list[Any], inputs: list[Labels], result: Labels) -> bool:
    """Whether `contraction` takes two tensors as they are."""
    pairs = _common_axes(inputs[0], inputs[1], result)
    sizes, others = operands[0]._array.shape, operands[1]._array.shape
    return pairs is not None and all(sizes[axis] == others[other] for axis, other in pairs)


@functools.lru_cache(maxsize=256)
def _common_axes(left: Labels, right: Labels, result: Labels) -> tuple[tuple[int, int], ...] | None:
    """The axes of two operands that have a label in common; None where not all labels stand where `contraction` asks.

    That is once at most in each of the three, and in two of them at least.
    """
    three = [*dict.fromkeys(left), *dict.fromkeys(right), *dict.fromkeys(result)]
    if len(three) != len(left) + len(right) + len(result) or min(map(three.count, three), default=2) < 2:
        return None
    return tuple((axis, right.index(label)) for axis, label in enumerate(left) if label in right)


def _sizes(operands: list[Any], inputs: list[Labels]) -> dict[int, int]:
    """The size of the axes of each label; those of size 1 fit all."""
    sizes: dict[int, int] = {}
    for number, (x, labels) in enumerate(zip(operands, inputs, strict=True)):
        for label, size in zip(labels, x._array.shape, strict=True):
            if size != 1 and sizes.get(label, 1) not in (1, size):
                raise RuntimeError(
                    f"einsum(): subscript {_LETTERS[label] if label < _ELLIPSIS_AXES else '...'} has size {size} for"
                    f" operand {number} which does not broadcast with previously seen size {sizes[label]}"
                )
            sizes[label] = size if size != 1 else sizes.get(label, 1)
    return sizes


def _prepared(x: Any, labels: Labels, sizes: dict[int, int]) -> tuple[Any, Labels]:
    """An operand with each label once: diagonals taken, and axes of size 1 that are broadcast left out."""
    if any(size == 1 != sizes[label] for label, size in zip(labels, x._array.shape, strict=True)):
        gone = [size == 1 != sizes[label] for label, size in zip(labels, x._array.shape, strict=True)]
        x = shape.index(x, tuple(0 if here else slice(None) for here in gone))
        labels = tuple(label for label, here in zip(labels, gone, strict=True) if not here)
    while len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        x = view.diagonal(x, 0, first, second)
        labels = (*labels[:first], *labels[first + 1 : second], *labels[second + 1 :], twice)
    return x, labels


def _summed(x: Any, labels: Labels, kept: set[int]) -> tuple[Any, Labels]:
    """A tensor summed over the labels that nobody needs any more."""
    gone = tuple(axis for axis, label in enumerate(labels) if label not in kept)
    return (reduce.sum(x, gone), tuple(label for label in labels if label in kept)) if gone else (x, labels)


def _path(prepared: list[tuple[Any, Labels]], result: Labels, sizes: dict[int, int]) -> list[tuple[int, int]]:
    """Which two to contract in each step; the result of a step goes to the end of the list."""
    count = len(prepared)
    if count < 3:
        return [(0, 1)] * (count - 1)
    letters = {label: _LETTERS[number] for number, label in enumerate(sizes)}
    equation = ",".join("".join(letters[label] for label in labels) for _, labels in prepared)
    known = {label for _, labels in prepared for label in labels}
    equation += "->" + "".join(letters[label] for label in result if label in known)
    shapes = [np.broadcast_to(0, x._array.shape) for x, _ in prepared]
    path = np.einsum_path(equation, *shapes, optimize=("greedy", 1 << 60))[0][1:]
    steps: list[tuple[int, int]] = []
    for step in path:
        steps += [(step[0], step[1])] if len(step) == 2 else [(0, 1)] * (len(step) - 1)
    return steps
