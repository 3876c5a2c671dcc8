"""Modules that hold modules."""

from __future__ import annotations

import itertools
import operator
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar, overload

from .module import Module, bracketed

Self = TypeVar("Self", bound="_Indexed")


class _Indexed(Module):
    """Children under the names ``"0"``, ``"1"``, ... with a list's access."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def _index(self, index: int) -> int:
        count = len(self)
        index = operator.index(index)
        if not -count <= index < count:
            raise IndexError(f"index {index} is out of range for {type(self).__name__} with {count} modules")
        return index % count

    def _refill(self, modules: Iterable[Any]) -> None:
        self._modules = {str(index): module for index, module in enumerate(modules)}

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...

    def __getitem__(self, index: int | slice) -> Any:
        modules = list(self._modules.items())
        if not isinstance(index, slice):
            return modules[self._index(index)][1]
        part = type(self)()
        names = modules[index]
        part._modules = dict(names) if self._keeps_names else {str(i): module for i, (_, module) in enumerate(names)}
        return part

    # A slice of a Sequential with names of its own keeps those; a list's children are always numbered.
    _keeps_names = False

    def __setitem__(self, index: int, module: Module) -> None:
        self.register_module(list(self._modules)[self._index(index)], module)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self._modules.values())
        del modules[index if isinstance(index, slice) else self._index(index)]
        self._refill(modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def append(self: Self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: Self, modules: Iterable[Module]) -> Self:
        """Add modules at the end.

        Raises:
            TypeError: if ``modules`` can't be iterated over, or holds something that is no module.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}: expected an iterable of modules, got {type(modules).__name__}")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Add a module before the one at ``index``, as in a list."""
        modules: list[Any] = list(self._modules.values())
        self.append(module)  # checks it
        modules.insert(index, module)
        self._refill(modules)

    def pop(self, key: int | slice) -> Any:
        """Take a module, or a slice, out and return it."""
        taken = self[key]
        del self[key]
        return taken


class Sequential(_Indexed):
    """Calls modules one after the other, each with the output of the one before.

    Args:
        args: the modules, or one dict of modules by name.

    Indexing gives a module, slicing another ``Sequential`` over the same modules.
    """

    _keeps_names = True

    def __init__(self, *args: Any) -> None:
        if len(args) == 1 and isinstance(args[0], Mapping):
            super().__init__()
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            super().__init__(args)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before the one at ``index``.

        Raises:
            IndexError: if there is no such place.
        """
        if not -len(self) <= index <= len(self):
            raise IndexError(f"Index out of range: {index}")
        super().insert(index, module)
        return self

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *self._checked(other))

    def __iadd__(self: Self, other: Sequential) -> Self:
        return self.extend(self._checked(other))

    @staticmethod
    def _checked(other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return other

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*(list(self) * self._positive(times)))

    def __rmul__(self, times: int) -> Sequential:
        return self * times

    def __imul__(self: Self, times: int) -> Self:
        return self.extend(list(self) * (self._positive(times) - 1))

    @staticmethod
    def _positive(times: int) -> int:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: Sequential and {type(times).__name__}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for Sequential")
        return times


class ModuleList(_Indexed):
    """A list of modules whose parameters are its own; it has no forward.

    Args:
        modules: the first modules.
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__(() if modules is None else modules)

    def __iadd__(self: Self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        if not len(self):
            return f"{self._get_name()}()"
        lines, start = [], 0
        for text, group in itertools.groupby(repr(module) for module in self):
            count = len(list(group))
            lines.append(f"({start}): {text}" if count == 1 else f"({start}-{start + count - 1}): {count} x {text}")
            start += count
        return bracketed(self._get_name(), lines)


class ModuleDict(Module):
    """A dict of modules whose parameters are its own; it has no forward.

    Args:
        modules: the first modules by name.
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[Any] | None = None) -> None:
        super().__init__()
        self.update({} if modules is None else modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def values(self) -> ValuesView[Any]:
        """The modules."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Any]:
        """Names and modules."""
        return self._modules.items()

    def update(self, modules: Mapping[str, Module] | ModuleDict | Iterable[Any]) -> None:
        """Add modules, given by name or as pairs, or replace those with the same names.

        Raises:
            TypeError: if they are neither.
            ValueError: for a pair that is none.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleDict.update should be called with an iterable of key/value pairs, but got"
                f" {type(modules).__name__}"
            )
        pairs = modules.items() if isinstance(modules, Mapping | ModuleDict) else modules
        for number, pair in enumerate(pairs):
            if not isinstance(pair, Iterable):
                raise TypeError(
                    f"ModuleDict update sequence element #{number} should be Iterable; is {type(pair).__name__}"
                )
            name_and_module = tuple(pair)
            if len(name_and_module) != 2:
                raise ValueError(
                    f"ModuleDict update sequence element #{number} has length {len(name_and_module)}; 2 is required"
                )
            self.add_module(*name_and_module)

    def pop(self, key: str) -> Any:
        """Take a module out and return it."""
        return self._modules.pop(key)

    def clear(self) -> None:
        """Take all modules out."""
        self._modules.clear()
