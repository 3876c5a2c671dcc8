"""Arguments for both libraries, and their results beside each other."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import stowgrad

from .opinfo_operators import is_of_the_tests, rebound

Array = np.ndarray[Any, Any]


class NotComparableError(Exception):
    """A sample that has no counterpart here, such as one with sparse tensors."""


class NotThereError(Exception):
    """A derivative that PyTorch does not have."""


# -- conversion --------------------------------------------------------------------------------------------------------


def host(tensor: torch.Tensor) -> Array:
    """The elements in NumPy's hands, the strides kept."""
    return tensor.detach().resolve_conj().resolve_neg().numpy(force=True)  # type: ignore[no-any-return]


def _copied(tensor: torch.Tensor) -> Array:
    """A copy that lies in a copy of the same memory, at the same place and with the same strides."""
    array = host(tensor)
    if array.flags.c_contiguous and array.nbytes == tensor.untyped_storage().nbytes():
        return array.copy()
    if tensor.is_conj() or tensor.is_neg():
        return array.copy()
    whole = torch.tensor([], dtype=tensor.dtype).set_(tensor.untyped_storage())
    offset = tensor.storage_offset() * tensor.element_size()
    return np.ndarray(array.shape, array.dtype, host(whole).copy(), offset, array.strides)


class Conversion:
    """Makes the arguments of one sample twice, as tensors of both libraries; collects the leaves."""

    def __init__(self) -> None:
        self.ours: list[Any] = []
        self.theirs: list[Any] = []
        self._made: dict[int, tuple[Any, Any]] = {}

    def pair(self, value: Any) -> tuple[Any, Any]:
        """A value for us, and one for PyTorch."""
        if isinstance(value, torch.Tensor):
            return self._tensors(value)
        if isinstance(value, torch.dtype):
            return np.dtype(str(value).removeprefix("torch.")) if value != torch.bfloat16 else stowgrad.bfloat16, value
        if isinstance(value, torch.device):
            return str(value), value
        if isinstance(value, torch.Size):
            return tuple(value), value
        if isinstance(value, slice):
            parts = [self.pair(part) for part in (value.start, value.stop, value.step)]
            return slice(*[part[0] for part in parts]), slice(*[part[1] for part in parts])
        if isinstance(value, dict):
            parts = {key: self.pair(part) for key, part in value.items()}
            return {key: part[0] for key, part in parts.items() if part[0] is not _LEFT_OUT}, {
                key: part[1] for key, part in parts.items()
            }
        if isinstance(value, tuple | list):
            parts = [self.pair(part) for part in value]
            mine, others = [part[0] for part in parts if part[0] is not _LEFT_OUT], [part[1] for part in parts]
            if hasattr(value, "_fields"):
                return type(value)(*mine), type(value)(*others)
            return type(value)(mine), type(value)(others)
        if isinstance(value, torch.layout | torch.memory_format):
            if value in (torch.strided, torch.contiguous_format, torch.preserve_format):
                return _LEFT_OUT, value
            raise NotComparableError(f"{value}: we have one layout")
        if isinstance(value, torch.nn.PairwiseDistance):
            settings = (value.norm, value.eps, value.keepdim)
            return lambda x, y: stowgrad.nn.functional.pairwise_distance(x, y, *settings), value
        if is_of_the_tests(value):
            return rebound(value, stowgrad), value
        return value, value

    def _tensors(self, value: torch.Tensor) -> tuple[Any, Any]:
        made = self._made.get(id(value))
        if made is not None:
            return made
        if value.layout != torch.strided or value.is_quantized:
            raise NotComparableError(f"a tensor of layout {value.layout}")
        theirs = value.detach()
        if isinstance(value, torch.nn.Parameter) or value.requires_grad:
            theirs.requires_grad_(value.requires_grad)
        if value.dtype == torch.bfloat16:
            ours = stowgrad.tensor(host(value.float())).to(stowgrad.bfloat16)
        else:
            ours = stowgrad.from_numpy(_copied(value.detach()))
        if value.requires_grad:
            ours.requires_grad_()
            self.ours.append(ours)
            self.theirs.append(theirs)
        self._made[id(value)] = ours, theirs
        return ours, theirs


_LEFT_OUT = object()  # says how PyTorch lays out tensors, as we always do


# -- comparison --------------------------------------------------------------------------------------------------------


def name_of(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def compare_arrays(got: Array, expected: Array, where: str, tolerance: float) -> None:
    """Fail unless elements agree, relative to the largest finite one."""
    if got.dtype.kind not in "fc":
        unequal = np.argwhere(got != expected)
        assert not len(unequal), f"{where}: {got} instead of {expected}"
        return
    with np.errstate(all="ignore"):
        size = np.abs(expected[np.isfinite(expected)])
        near = tolerance * max(float(np.max(size, initial=0.0)), 1.0)
        good = (np.abs(got - expected) <= near) | (got == expected) | (np.isnan(got) & np.isnan(expected))
    if not good.all():
        at = tuple(int(i) for i in np.argwhere(~good)[0])
        raise AssertionError(
            f"{where}: {(~good).sum()} of {good.size} elements differ, first at {list(at)}: {got[at]} instead of"
            f" {expected[at]}"
        )


def compare_tensors(got: Any, expected: torch.Tensor, where: str, tolerance: float | None) -> None:
    """Fail unless tensors agree in shape, dtype and elements (or without those, if ``tolerance`` is None)."""
    assert isinstance(got, stowgrad.Tensor), f"{where}: {type(got).__name__} instead of a tensor"
    assert tuple(got.shape) == tuple(expected.shape), f"{where}: shape {got.shape} instead of {tuple(expected.shape)}"
    assert name_of(got.dtype) == name_of(expected.dtype), f"{where}: dtype {got.dtype} instead of {expected.dtype}"
    if tolerance is not None:
        if expected.dtype == torch.bfloat16:
            got, expected = got.float(), expected.float()
        low = name_of(expected.dtype) in ("float16", "float32", "complex64")
        compare_arrays(got.numpy(force=True), host(expected), where, max(tolerance, 3e-3 if low else 0.0))


def fields(value: Any) -> list[str]:
    """The names of the fields of a result, where it has some."""
    if hasattr(value, "_fields"):
        return list(value._fields)
    if type(value).__module__ == "torch.return_types":
        return [name for name, kind in vars(type(value)).items() if inspect.ismemberdescriptor(kind)]
    return []


def leaves(got: Any, expected: Any, where: str = "value") -> Iterator[tuple[Any, torch.Tensor, str]]:
    """The tensors of two results beside each other; what is no tensor is compared at once."""
    if isinstance(expected, torch.Tensor):
        yield got, expected, where
    elif isinstance(expected, torch.Size):
        assert tuple(got) == tuple(expected), f"{where}: {got} instead of {expected}"
    elif isinstance(expected, tuple | list):
        assert isinstance(got, tuple | list), f"{where}: {type(got).__name__} instead of {type(expected).__name__}"
        assert len(got) == len(expected), f"{where}: {len(got)} results instead of {len(expected)}"
        for name in fields(expected):
            assert getattr(got, name, None) is not None, f"{where}: no field {name}"
        for number, (mine, other) in enumerate(zip(got, expected)):
            yield from leaves(mine, other, f"{where}[{number}]")
    else:
        assert got == expected, f"{where}: {got!r} instead of {expected!r}"


def _direction(tensor: torch.Tensor, seed: int) -> Array:
    draw = np.random.default_rng((seed, 17))
    values = draw.standard_normal(tuple(tensor.shape))
    if tensor.is_complex():
        values = values + 1j * draw.standard_normal(tuple(tensor.shape))
    return np.asarray(values).astype(name_of(tensor.dtype) if tensor.dtype != torch.bfloat16 else "float32")


def gradients(pairs: list[tuple[Any, Any]], made: Conversion, seed: int, again: bool) -> tuple[list[Any], list[Any]]:
    """Gradients of outputs, ours and theirs, along the same random directions.

    Raises:
        NotThereError: if PyTorch has none.
    """
    mine, others, along, beside = [], [], [], []
    for number, (got, expected) in enumerate(pairs):
        direction = _direction(expected, seed + number)
        mine.append(got)
        others.append(expected)
        along.append(stowgrad.tensor(direction, dtype=got.dtype))
        beside.append(torch.tensor(direction).to(expected.dtype))
    try:
        theirs = torch.autograd.grad(others, made.theirs, beside, create_graph=again, allow_unused=True)
    except RuntimeError as error:
        raise NotThereError(str(error)) from None
    ours = stowgrad.autograd.grad(mine, made.ours, along, create_graph=again, allow_unused=True)
    return list(ours), list(theirs)


def compare_gradients(got: list[Any], expected: list[Any], what: str, tolerance: float | None) -> None:
    """Fail unless gradients agree; None stands for zeros."""
    for number, (mine, other) in enumerate(zip(got, expected)):
        where = f"{what} of input {number}"
        if mine is None or other is None:
            if mine is not other and tolerance is not None:
                there = host(other) if mine is None else mine.numpy(force=True)
                assert not there.any(), f"{where}: {'none' if mine is None else 'one'}, unlike PyTorch"
        else:
            compare_tensors(mine, other, where, tolerance)
