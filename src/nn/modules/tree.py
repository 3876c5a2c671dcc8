"""`ModuleTree`: a module's parameters, buffers and children, how they get in, and ways to walk over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ...autograd.tensor import Tensor
from ..parameter import Buffer, Parameter, relabel

T = TypeVar("T")
_KINDS = ("_parameters", "_buffers", "_modules")


class ModuleTree:
    """What `Module` is besides its computation: named parameters, buffers and submodules.

    Assigning a `Parameter`, a `Buffer` or a module as an attribute registers it; deleting the attribute, or assigning
    something else, takes it out again.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, ModuleTree | None]
    _non_persistent_buffers_set: set[str]

    def __init__(self) -> None:
        self.__dict__.update(training=True, _parameters={}, _buffers={}, _modules={}, _non_persistent_buffers_set=set())

    # -- attributes ----------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._make_way(name, "parameters")
            self.register_parameter(name, value)
        elif isinstance(value, ModuleTree):
            self._make_way(name, "modules")
            self.add_module(name, value)
        elif isinstance(value, Buffer):
            self._make_way(name, "buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in self.__dict__.get("_parameters", ()):
            self.register_parameter(name, value)
        elif name in self.__dict__.get("_modules", ()):
            self.register_module(name, value)
        elif name in self.__dict__.get("_buffers", ()):
            self.register_buffer(name, value, name not in self._non_persistent_buffers_set)
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for kind in _KINDS:
            found = self.__dict__.get(kind, {})
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for kind in _KINDS:
            if name in self.__dict__.get(kind, ()):
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        registered = [name for kind in _KINDS for name in self.__dict__.get(kind, ()) if name.isidentifier()]
        return sorted({*object.__dir__(self), *registered})

    def _make_way(self, name: str, what: str) -> None:
        """Take out whatever else has this name, for something that is about to be registered."""
        if "_modules" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        self.__dict__.pop(name, None)
        for kind in _KINDS:
            if kind != f"_{what}":
                self.__dict__[kind].pop(name, None)
        if what != "buffers":
            self._non_persistent_buffers_set.discard(name)

    def _check_name(self, what: str, name: str, registered: dict[str, Any]) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string, got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain ".", got {name!r}')
        if name == "":
            raise KeyError(f'{what} name can\'t be empty string ""')
        if name not in registered and hasattr(self, name):
            raise KeyError(f"attribute {name!r} already exists")

    # -- registration --------------------------------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter; None reserves the name.

        Raises:
            TypeError: if ``param`` is neither a `Parameter` nor None, or the name is no string.
            KeyError: if the name is empty, contains a dot or is taken.
        """
        self._check_name("parameter", name, self.__dict__.get("_parameters", {}))
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign {type(param).__name__!r} object as parameter {name!r} (nn.Parameter or None expected)"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module's state but not learned; its memory counts as ``buffer``.

        Args:
            name: its attribute name.
            tensor: the tensor; None reserves the name.
            persistent: whether it belongs to ``state_dict``.

        Raises:
            TypeError: if ``tensor`` is neither a tensor nor None, or the name is no string.
            KeyError: if the name is empty, contains a dot or is taken.
        """
        self._check_name("buffer", name, self.__dict__.get("_buffers", {}))
        if tensor is not None:
            if not isinstance(tensor, Tensor):
                raise TypeError(
                    f"cannot assign {type(tensor).__name__!r} object as buffer {name!r} (Tensor or None expected)"
                )
            relabel(tensor, "buffer")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: ModuleTree | None) -> None:
        """Add a child; None reserves the name.

        Raises:
            TypeError: if ``module`` is neither a module nor None, or the name is no string.
            KeyError: if the name is empty, contains a dot or is taken.
        """
        self._check_name("module", name, self.__dict__.get("_modules", {}))
        if module is not None and not isinstance(module, ModuleTree):
            raise TypeError(f"cannot assign {type(module).__name__!r} object as module {name!r}: not a Module subclass")
        self._modules[name] = module

    def register_module(self, name: str, module: ModuleTree | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    # -- walks ---------------------------------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """This module and all below it with their dotted names, parents first.

        Args:
            memo: identities of modules that are left out.
            prefix: the name of this module.
            remove_duplicate: whether a module that is used in several places comes once.
        """
        seen = set() if memo is None else memo
        if remove_duplicate:
            if id(self) in seen:
                return
            seen.add(id(self))
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Any]:
        """This module and all below it, parents first, each once."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """The direct children with their names, each once."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> Iterator[Any]:
        """The direct children, each once."""
        for _, child in self.named_children():
            yield child

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names; a shared one comes once, under its first name.

        Args:
            prefix: put in front of every name.
            recurse: whether those of the modules below come too.
            remove_duplicate: False to have shared parameters under each of their names.
        """
        return self._named(lambda module: module._parameters, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their dotted names; the arguments are those of `named_parameters`."""
        return self._named(lambda module: module._buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named(
        self,
        members: Callable[[ModuleTree], dict[str, T | None]],
        prefix: str,
        recurse: bool,
        remove_duplicate: bool,
    ) -> Iterator[tuple[str, T]]:
        seen: set[int] = set()
        walk = self.named_modules(None, prefix, remove_duplicate) if recurse else iter([(prefix, self)])
        for path, module in walk:
            for name, member in members(module).items():
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def get_submodule(self, target: str) -> Any:
        """The module with that dotted name; an empty name means this one.

        Raises:
            AttributeError: if there is none.
        """
        module = self
        for name in target.split(".") if target else ():
            child = module._modules.get(name)
            if child is None:
                raise AttributeError(f"{type(module).__name__} has no submodule {name!r} (looked for {target!r})")
            module = child
        return module

    def set_submodule(self, target: str, module: ModuleTree, strict: bool = False) -> None:
        """Put a module at a dotted name, whose last part may be new.

        Args:
            target: the name.
            module: the module.
            strict: whether there has to be one already.

        Raises:
            ValueError: for an empty name, or something that is no module.
            AttributeError: if there is no module to put it into or, with ``strict``, none that it replaces.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module).__name__}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and parent._modules.get(name) is None:
            raise AttributeError(f"{type(parent).__name__} has no submodule {name!r} (looked for {target!r})")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with that dotted name.

        Raises:
            AttributeError: if there is none.
        """
        path, _, name = target.rpartition(".")
        found: Parameter | None = self.get_submodule(path)._parameters.get(name)
        if found is None:
            raise AttributeError(f"there is no parameter {target!r}")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with that dotted name.

        Raises:
            AttributeError: if there is none.
        """
        path, _, name = target.rpartition(".")
        found: Tensor | None = self.get_submodule(path)._buffers.get(name)
        if found is None:
            raise AttributeError(f"there is no buffer {target!r}")
        return found
