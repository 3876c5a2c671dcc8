"""NumPy's functions that make arrays like a tensor, space numbers between tensors, or write into them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd import Tensor
from ..autograd import functions as F
from ..autograd.creation import empty, ones, zeros
from ..autograd.inplace import copy_
from ..autograd.ops.promotion import category
from .convert import floats, owned, plain, requires_grad, tensor_of, tensors_in
from .dispatching import FUNCTIONS, implements, label, refuse, refuse_out

__all__: list[str] = []


def _like(make: Callable[..., Any]) -> Callable[..., Any]:
    def like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **_: Any) -> Any:
        x = tensor_of(a)
        sizes = x.shape if shape is None else shape
        return make(sizes, dtype=x.dtype if dtype is None else np.dtype(dtype), device=x.device)

    return like


implements(np.zeros_like)(_like(zeros))
implements(np.ones_like)(_like(ones))
implements(np.empty_like)(_like(empty))


@implements(np.full_like)
def _full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **_: Any
) -> Any:
    x = tensor_of(a)
    sizes = x.shape if shape is None else shape
    value = tensor_of(fill_value).to(x.dtype if dtype is None else np.dtype(dtype)).to(x.device)
    return F.broadcast_to(value, tuple(np.atleast_1d(sizes)) if not isinstance(sizes, tuple) else sizes).clone()


def _made_like(function: Any) -> Callable[..., Any]:
    """What NumPy's function with ``like=`` a tensor makes: a tensor, of tensors where they are given."""

    def make(*args: Any, **keywords: Any) -> Any:
        keywords.pop("like", None)
        if next(iter(tensors_in((args, keywords))), None) is None:
            return owned(function(*args, **keywords))
        if function not in (np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray):
            if requires_grad(args, keywords):
                refuse(label(function))
            return owned(function(*plain(args), **plain(keywords)))
        dtype = keywords.get("dtype", args[1] if len(args) > 1 else None)
        found = tensor_of(args[0])
        found = found if dtype is None else found.to(np.dtype(dtype))
        return found.clone() if function is np.array and found is args[0] else found

    return make


for _name in [
    "arange",
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "asfortranarray",
    "empty",
    "eye",
    "fromfunction",
    "full",
    "identity",
    "linspace",
    "ones",
    "require",
    "tri",
    "zeros",
]:
    if getattr(np, _name) not in FUNCTIONS:
        FUNCTIONS[getattr(np, _name)] = _made_like(getattr(np, _name))


# -- spaced numbers --------------------------------------------------------------------------------------------------


@implements(np.linspace)
def _linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    first, last = floats(start, stop)
    first, last = F.broadcast_tensors(first, last)
    parts = num - 1 if endpoint else num
    shares = np.arange(num, dtype=first.dtype).reshape((-1,) + (1,) * first.ndim) / max(parts, 1)
    found = first + (last - first) * owned(shares.astype(first.dtype), first)
    found = F.movedim(found, 0, axis)
    found = found if dtype is None else found.to(np.dtype(dtype))
    return (found, (last - first) / parts if parts else (last - first) * float("nan")) if retstep else found


@implements(np.logspace)
def _logspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, axis: int = 0
) -> Any:
    exponents = _linspace(start, stop, num, endpoint, axis=axis)
    found = F.pow(tensor_of(base).to(exponents.dtype), exponents)
    return found if dtype is None else found.to(np.dtype(dtype))


@implements(np.geomspace)
def _geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    first, last = F.broadcast_tensors(*floats(start, stop))
    exponents = _linspace(F.log(F.abs(first)), F.log(F.abs(last)), num, endpoint)
    found = F.movedim(F.exp(exponents) * F.sgn(first), 0, axis)
    return found if dtype is None else found.to(np.dtype(dtype))


# -- writing ---------------------------------------------------------------------------------------------------------


def _writes(function: Any) -> Callable[..., Callable[..., None]]:
    """A function that writes into its first argument; into an array, by NumPy itself, if nothing requires grad."""

    def enter(handler: Callable[..., None]) -> Callable[..., None]:
        def write(target: Any, *args: Any, **keywords: Any) -> None:
            if isinstance(target, Tensor):
                handler(target, *args, **keywords)
            elif requires_grad(args, keywords):
                refuse_out(f"np.{function.__name__}")
            else:
                function(target, *plain(args), **plain(keywords))

        FUNCTIONS[function] = write
        return handler

    return enter


@_writes(np.copyto)
def _copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    source = tensor_of(src).to(dst.device)
    if category(source.dtype) > category(dst.dtype) and casting != "unsafe":
        raise TypeError(f"np.copyto: cannot cast from {source.dtype} to {dst.dtype} according to the rule {casting!r}")
    copy_(dst, source if where is True else F.where(tensor_of(where), source.to(dst.dtype), dst))


@_writes(np.putmask)
def _putmask(a: Any, mask: Any, values: Any) -> None:
    given = tensor_of(values).to(a.dtype).reshape(-1)
    numbers = np.arange(a._array.size) % given.shape[0]
    copy_(a, F.where(tensor_of(mask), given[tensor_of(numbers)].reshape(a.shape), a))


@_writes(np.place)
def _place(arr: Any, mask: Any, vals: Any) -> None:
    chosen = np.flatnonzero(plain(mask))
    given = tensor_of(vals).to(arr.dtype).reshape(-1)
    copy_(arr, _filled(arr, chosen, given[tensor_of(np.arange(chosen.size) % given.shape[0])]))


@_writes(np.put)
def _put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    index = np.asarray(plain(ind)).reshape(-1)
    size = a._array.size
    index = np.clip(index, 0, size - 1) if mode == "clip" else index % size if mode == "wrap" else index
    given = tensor_of(v).to(a.dtype).reshape(-1)
    copy_(a, _filled(a, index, given[tensor_of(np.arange(index.size) % given.shape[0])]))


def _filled(x: Any, index: Any, values: Any) -> Any:
    return F.put(x, tensor_of(np.asarray(index, np.int64)), values)


@_writes(np.put_along_axis)
def _put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    index = tensor_of(indices).to(np.dtype(np.int64))
    given = F.broadcast_to(tensor_of(values).to(arr.dtype), index.shape)
    if axis is None:
        copy_(arr, F.scatter(arr.reshape(-1), 0, index, given).reshape(arr.shape))
        return
    shape = [index.shape[d] if d == axis % arr.ndim else size for d, size in enumerate(arr.shape)]
    copy_(arr, F.scatter(arr, axis, F.broadcast_to(index, shape), F.broadcast_to(given, shape)))


@_writes(np.fill_diagonal)
def _fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    numbers = np.arange(a._array.size).reshape(a.shape)
    marked = np.zeros(a.shape, bool)
    np.fill_diagonal(marked, True, wrap=wrap)
    given = tensor_of(val).to(a.dtype).reshape(-1)
    index = numbers[marked]
    copy_(a, _filled(a, index, given[tensor_of(np.arange(index.size) % given.shape[0])]))
