"""Which values a stage of a policy is for, and how often each question let one through."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from ..memory import format_size, parse_size
from . import modules
from .hooks import SavedValue
from .payload import Stage

# Which names a condition lets through: one, several, or a function that decides.
Names: TypeAlias = str | Iterable[str] | Callable[[str], bool]

_KEPT_CATEGORIES = ("parameter", "buffer")
# Why a value is left as it is.
IS_PARAMETER = "parameter or buffer"
STAYS_ALIVE = "stays alive anyway"
IS_SMALL = "small"
OTHER_DEVICE = "nothing to do on its device"
NOT_MEANT = "not asked for"
NO_DATA = "no data"
DECLINED = "not worth it"


@dataclass(slots=True)
class Condition:
    """What `Policy.where` asks of a value; None asks nothing.

    Attributes:
        admitted, refused: how many values it let through, and how many not.
    """

    min_bytes: int = 0
    asks: Callable[[SavedValue], bool] | None = None
    text: str = ""
    admitted: int = 0
    refused: int = 0

    def admits(self, value: SavedValue) -> bool:
        """Whether the value meets it, its size aside."""
        if self.asks is None:
            return True
        met = self.asks(value)
        self.admitted += met
        self.refused += not met
        return met

    def takes(self, nbytes: int) -> bool:
        """Whether a value of that size meets it."""
        if not self.min_bytes:
            return True
        large = nbytes >= self.min_bytes
        self.admitted += large
        self.refused += not large
        return large

    def fresh(self) -> Condition:
        """The same that has counted nothing."""
        return replace(self, admitted=0, refused=0)


@dataclass(slots=True)
class Link:
    """A stage in a pipeline, and the values that it is for.

    Attributes:
        seen, took: how many values it was for, and how many it packed.
        parameters_seen: how many lay in parameters or buffers.
    """

    stage: Stage
    conditions: tuple[Condition, ...]
    parameters: bool
    seen: int = 0
    took: int = 0
    parameters_seen: int = 0

    def refuses(self, value: SavedValue) -> str | None:
        """Why the stage isn't for this value, its size aside; None if it is."""
        if value.storage.category in _KEPT_CATEGORIES:
            self.parameters_seen += 1
            if not self.parameters:
                return IS_PARAMETER
        elif value.alive and not self.parameters:
            return STAYS_ALIVE
        if not self.stage.serves(value.storage.device):
            return OTHER_DEVICE
        for condition in self.conditions:
            if not condition.admits(value):
                return NOT_MEANT
        return None

    @property
    def least(self) -> int:
        """The size from which on the stage is for values."""
        return max((condition.min_bytes for condition in self.conditions), default=0)

    def takes(self, nbytes: int) -> bool:
        """Whether the stage is for values of that size."""
        taken = True
        for condition in self.conditions:
            taken = condition.takes(nbytes) and taken  # each one counts
        return taken

    def fresh(self, *added: Condition) -> Link:
        """The same with more conditions, all of which have counted nothing."""
        conditions = tuple([condition.fresh() for condition in (*self.conditions, *added)])
        return Link(self.stage, conditions, self.parameters)

    def describe(self) -> str:
        """The stage and its conditions."""
        texts = [condition.text for condition in self.conditions if condition.text]
        return f"{self.stage.describe()} where {', '.join(texts)}" if texts else self.stage.describe()

    def without_effect(self) -> Iterable[str]:
        """A sentence for each thing about it that had no effect."""
        if not self.took:
            yield f"{self.stage.describe()}: packed none of the {self.seen} values that it was for"
        for condition in self.conditions:
            if not condition.refused:
                yield f"{self.stage.name} where {condition.text}: refused nothing"
            elif not condition.admitted:
                yield f"{self.stage.name} where {condition.text}: nothing met it"
        if self.parameters and not self.parameters_seen:
            yield f"{self.stage.name}, parameters=True: nothing lay in a parameter or buffer"
        yield from self.stage.without_effect()


def size_condition(min_bytes: int | str) -> tuple[Condition, ...]:
    """At least that size; none for 0."""
    size = parse_size(min_bytes)
    return (Condition(min_bytes=size, text=f"at least {format_size(size)}"),) if size else ()


def conditions_for(
    min_bytes: int | str, dtype: Any, op: Names | None, slot: Names | None, module: modules.Modules | None
) -> tuple[Condition, ...]:
    """What the arguments of `Policy.where` ask.

    Raises:
        TypeError, ValueError: for what is no dtype, size or module.
    """
    found = list(size_condition(min_bytes))
    if dtype is not None:
        several = dtype if isinstance(dtype, list | tuple | set | frozenset) else (dtype,)
        dtypes = tuple(np.dtype(one) for one in several)
        text = f"dtype {' or '.join(str(one) for one in dtypes)}"
        found.append(Condition(asks=lambda value: value.array.dtype in dtypes, text=text))
    if op is not None:
        is_op = _predicate(op)
        found.append(Condition(asks=lambda value: is_op(value.op), text=f"op {_names_text(op)}"))
    if slot is not None:
        is_slot = _predicate(slot)
        found.append(Condition(asks=lambda value: is_slot(value.slot), text=f"slot {_names_text(slot)}"))
    if module is not None:
        is_inside, text = modules.condition_for(module)
        found.append(Condition(asks=lambda value: is_inside(), text=text))
    return tuple(found)


def _predicate(names: Names) -> Callable[[str], bool]:
    if isinstance(names, str):
        return names.__eq__
    if callable(names):
        return lambda name: bool(names(name))
    return frozenset(names).__contains__


def _names_text(names: Names) -> str:
    if isinstance(names, str):
        return names
    if callable(names):
        return f"by {getattr(names, '__name__', type(names).__name__)}"
    return " or ".join(sorted(names))
