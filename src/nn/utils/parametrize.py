"""Parametrizations: a parameter that is computed from others whenever it is asked for.

NOTE [ How a tensor is replaced ]
1. The module gets a class of its own, below its old one, with a property under the tensor's name. Reading it computes
   the tensor; writing it, if all parametrizations can be turned round, changes the originals.
2. The originals live in ``module.parametrizations``, a `ModuleDict` of `ParametrizationList`, whose first module takes
   ``original`` (or ``original0``, ``original1``, ...), and each further one the result of the one before.
3. The original keeps the parameter object, so an optimizer that has it keeps it.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ...autograd.grad_mode import no_grad
from ...autograd.tensor import Tensor
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter, relabel


class _Cache(threading.local):
    """What was computed within `cached`."""

    depth = 0
    tensors: dict[tuple[int, str], Any]


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once for as long as the context lasts."""
    if not _cache.depth:
        _cache.tensors = {}
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.tensors = {}


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, and what they start from.

    Args:
        modules: the parametrizations.
        original: the tensor.
        unsafe: whether they may change its dtype and shape.

    Raises:
        ValueError: if they do, or give something else than tensors.
    """

    unsafe: bool
    is_tensor: bool
    ntensors: int

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = tuple(original.shape), original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(list(self)):
                new = _inverted(module, new)
        self.is_tensor = isinstance(new, Tensor)
        if self.is_tensor:
            self.ntensors = 1
            _check_like("`right_inverse`", new, original.dtype, None)
            _set(original, new)
            _register(self, "original", original)
        else:
            self.ntensors = len(_check_tensors(new))
            for number, tensor in enumerate(new):
                if isinstance(original, Parameter):
                    tensor = Parameter(tensor.detach(), original.requires_grad)
                _register(self, f"original{number}", tensor)
        if not unsafe:
            _check_like("a parametrization", self(), dtype, shape)

    def right_inverse(self, value: Tensor) -> None:
        """Change the originals so that the result is ``value``, or what the parametrizations make of it.

        Raises:
            RuntimeError: if a parametrization has no ``right_inverse``.
            ValueError: if one gives something that doesn't fit the originals.
        """
        with no_grad():
            new: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                new = module.right_inverse(new)
            if self.is_tensor:
                new = [new]
            originals = self._originals()
            if len(_check_tensors(new)) != len(originals):
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {len(originals)}. Got a sequence of"
                    f" length {len(new)}."
                )
            for original, tensor in zip(originals, new, strict=True):
                _check_like("`right_inverse`", tensor, original.dtype, None)
                _set(original, tensor)

    def _originals(self) -> list[Any]:
        names = ["original"] if self.is_tensor else [f"original{number}" for number in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def forward(self) -> Tensor:
        first, *others = self
        result: Tensor = first(*self._originals())
        for module in others:
            result = module(result)
        return result


def _inverted(module: Module, value: Any) -> Any:
    """What a parametrization makes the value of; the value itself, if it does not say."""
    if not hasattr(module, "right_inverse"):
        return value
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def _check_tensors(values: Any) -> Any:
    if not isinstance(values, Sequence) or not all(isinstance(value, Tensor) for value in values):
        raise ValueError(
            "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...)."
            f" Got {type(values).__name__}"
        )
    return values


def _check_like(what: str, value: Any, dtype: Any, shape: tuple[int, ...] | None) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"{what} must return a tensor. Got {type(value).__name__}.")
    if value.dtype != dtype:
        raise ValueError(
            f"{what} may not change the dtype of the tensor, unless `unsafe` flag is enabled.\n"
            f"expected: {dtype}\ngot: {value.dtype}"
        )
    if shape is not None and tuple(value.shape) != shape:
        raise ValueError(
            f"{what} may not change the shape of the tensor, unless `unsafe` flag is enabled.\n"
            f"expected: {list(shape)}\ngot: {list(value.shape)}"
        )


def _set(original: Tensor, new: Tensor) -> None:
    """Give a tensor the memory of another, under its own name in the count."""
    if new is not original:
        category = original._storage.category
        original.data = new.detach()
        relabel(original, category)


def _register(module: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


# -- a module's class --------------------------------------------------------------------------------------------------


def _refuse_pickling(self: Module, protocol: Any = None) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _deepcopied(self: Module, memo: dict[int, Any]) -> Module:
    cls = type(self)
    own = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__", "__doc__")}
    twin: Any = type(cls.__name__, cls.__bases__, own)  # a class of its own: see rule 1
    replica: Module = twin.__new__(twin)
    memo[id(self)] = replica
    replica.__dict__.update(copy.deepcopy(self.__dict__, memo))
    return replica


def _property_of(name: str) -> property:
    def read(self: Any) -> Any:
        key = id(self), name
        if not _cache.depth:
            return self.parametrizations[name]()
        if key not in _cache.tensors:
            _cache.tensors[key] = self.parametrizations[name]()
        return _cache.tensors[key]

    def write(self: Any, value: Any) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(read, write)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """From now on, compute a parameter or buffer by a module from its original.

    Args:
        module: what has the parameter or buffer.
        tensor_name: its name there.
        parametrization: the module that is called with the original. Its method ``right_inverse``, if it has one, makes
            the original (or several) from the tensor.
        unsafe: whether it may change dtype and shape.

    Returns:
        The module.

    Raises:
        ValueError: if there is no such tensor, or for other dtypes and shapes.

    >>> import stowgrad
    >>> class Symmetric(Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).transpose(0, 1)
    >>> layer = register_parametrization(stowgrad.nn.Linear(2, 2), "weight", Symmetric())
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original']
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        held = module.parametrizations[tensor_name]
        if not unsafe:
            before = getattr(module, tensor_name)
            shape = tuple(before.shape)
            after = parametrization(before)
            _check_like("a parametrization", after, before.dtype, shape)
            _check_like("`right_inverse`", _inverted(parametrization, after), before.dtype, shape)
        held.append(parametrization)
        held.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        held = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            cls = type(module)
            methods = {"__deepcopy__": _deepcopied, "__reduce_ex__": _refuse_pickling}
            module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), methods)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property_of(tensor_name))
        module.parametrizations[tensor_name] = held
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name"
            f" '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module, or any of them, has a parametrization."""
    held = getattr(module, "parametrizations", None)
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a plain parameter or buffer of a parametrized tensor again.

    Args:
        module: what has the tensor.
        tensor_name: its name.
        leave_parametrized: whether it stays as it was computed last, rather than become its original.

    Returns:
        The module.

    Raises:
        ValueError: if it is not parametrized, or is to become one original where there are several.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    held = module.parametrizations[tensor_name]
    if held.is_tensor:
        original = held.original
        if leave_parametrized:
            with no_grad():
                _set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a"
            " sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before its tensors were parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)
