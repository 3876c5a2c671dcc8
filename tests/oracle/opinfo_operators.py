"""PyTorch's table of operators, and how each is called here."""

from __future__ import annotations

import functools
import inspect
import random
import types
import warnings
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import stowgrad

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_methods_invocations

Call = Callable[..., Any]

# Ours where it is called otherwise.
ELSEWHERE: dict[str, Call] = {
    "zero_": lambda x: x.clone().zero_(),
    "slice": lambda x, dim=0, start=None, end=None, step=1: x.movedim(dim, 0)[start:end:step].movedim(0, dim),
    "_segment_reduce": stowgrad.segment_reduce,
}


@functools.cache
def operators(dtype: str = "float64") -> dict[str, Any]:
    """Every OpInfo with gradients in a dtype on the CPU, by its name with its variant."""
    wanted = getattr(torch, dtype)
    complex_ = wanted.is_complex
    return {
        info.full_name: info
        for info in common_methods_invocations.op_db
        if info.supports_autograd
        and wanted in info.supported_dtypes("cpu")
        and (not complex_ or wanted in info.supported_backward_dtypes("cpu"))
    }


@functools.cache
def others() -> dict[str, Any]:
    """Every other OpInfo: of what has no gradients, or none in float64."""
    known = operators()
    return {info.full_name: info for info in common_methods_invocations.op_db if info.full_name not in known}


def dtype_of_others(info: Any) -> str | None:
    """The first dtype in which such an operator has samples."""
    there = info.supported_dtypes("cpu")
    return next((name for name in ("float64", "int64", "bool", "complex128") if getattr(torch, name) in there), None)


def _attribute(owner: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        owner = getattr(owner, part, None)
    return owner


def _function(name: str) -> Call | None:
    found = ELSEWHERE.get(name, _attribute(stowgrad, name))
    return found if callable(found) and not isinstance(found, type) else None


def _method(name: str) -> Any:
    return None if "." in name else getattr(stowgrad.Tensor, name, None)


def offered(info: Any) -> bool:
    """Whether we have a function or a method of an operator's name."""
    return _function(info.name) is not None or _method(info.name) is not None


def _all_operators() -> list[Any]:
    return [*operators().values(), *others().values()]


def covered_functions(prefix: str = "") -> set[str]:
    """Functions of ours that some operator's samples call: those of a namespace, without its name."""
    found = set()
    for info in _all_operators():
        for name in (info.name, *[alias.name for alias in info.aliases]):
            if name.startswith(prefix) and _function(name) is not None:
                found.add(name.removeprefix(prefix))
    return found


def covered_methods() -> set[str]:
    """Methods of ours that some operator's samples call."""
    known = _all_operators()
    found = {way.label.removeprefix("Tensor.") for info in known for way in ways(info)}
    tests = {info.name for info in known if is_of_the_tests(info.op)}
    return found | {name for name in tests if _method(name) is not None}


def rebound(function: Any, lib: Any) -> Call:
    """A function of PyTorch's tests, with ``torch`` and what fixes the seed replaced."""
    names = {"torch": lib, "wrapper_set_seed": lambda op, *args, **keywords: op(*args, **keywords)}
    code = function.__code__
    made = types.FunctionType(
        code, function.__globals__ | names, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def is_of_the_tests(function: Any) -> bool:
    return inspect.isfunction(function) and str(function.__module__).startswith("torch.testing")


class Way(NamedTuple):
    """One way to call an operator, in both libraries."""

    label: str
    ours: Call
    theirs: Call


def _in_place(name: str) -> Call:
    return lambda x, *args, **keywords: getattr(x.clone(), name)(*args, **keywords)


def ways(info: Any) -> list[Way]:
    """Every way in which we offer an operator."""
    found = []
    if is_of_the_tests(info.op):
        if info.name not in ELSEWHERE:
            return [Way(info.name, rebound(info.op, stowgrad), rebound(info.op, torch))]
        return [Way(info.name, ELSEWHERE[info.name], rebound(info.op, torch))]
    for name, theirs, method, written in (
        (info.name, info.op, info.method_variant, info.inplace_variant),
        *[(alias.name, alias.op, alias.method_variant, alias.inplace_variant) for alias in info.aliases],
    ):
        function = _function(name)
        if function is not None:
            found.append(Way(name, function, theirs))
        last = name.split(".")[-1]
        ours = getattr(stowgrad.Tensor, last, None)
        if method is not None and ours is not None:
            found.append(Way(f"Tensor.{last}", ours, method))
        if written is not None and hasattr(stowgrad.Tensor, f"{last}_"):
            found.append(Way(f"Tensor.{last}_", _in_place(f"{last}_"), _in_place(f"{last}_")))
    if not found and _method(info.name) is not None:
        found.append(Way(f"Tensor.{info.name}", _method(info.name), info.op))
    return found


def samples(info: Any, dtype: str = "float64") -> list[Any]:
    """An operator's sample inputs, the same in every run."""
    seed = zlib.crc32(info.full_name.encode())
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # what PyTorch's tests draw from
    return list(info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=_has_gradients(info, dtype)))


def _has_gradients(info: Any, dtype: str) -> bool:
    return info.full_name in operators(dtype if dtype.startswith("complex") else "float64")
