"""One call of a checkpointed function: the places of its saved values, and how they are filled again.

NOTE [ A checkpointed region ]
1. The function runs once, recorded as usual; every value that its nodes save becomes an empty *place*, in order.
2. The first read of a place in a pass runs the function again until as many values have been saved as there are places.
   They fill the places by their order; op, slot, shape and dtype must be the same.
3. A filled place is emptied when it is read, and all that are left when the pass ends, however it ends.
4. The function's tensor arguments are saved like a node's inputs, outside of the region, so that policies around it
   apply to them. A tensor that the region read from elsewhere and that was changed in place since is an error.
5. The second run draws the same random numbers.
6. The signal that ends the second run early is no `Exception`: the function can't swallow it by accident.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..autograd.engine import current_task
from ..memory import Storage, events, storage_of
from ..saved_tensors.hooks import Handle, PolicyEntry, SavedValue
from ..saved_tensors.state import Under
from .inputs import SavedInputs
from .surroundings import NoRandomState, RandomState

_LASTING = ("parameter", "buffer")
_recomputing: ContextVar[bool] = ContextVar("stowgrad_recomputing", default=False)


class CheckpointError(RuntimeError):
    """A region did not save the same values when it was computed again."""


class _EnoughError(BaseException):
    """Ends the second run once all places are filled (note, rule 6)."""


def is_recomputing() -> bool:
    """Whether the code that asks runs inside the second run of a checkpointed region."""
    return _recomputing.get()


class Place:
    """Where a saved value of the region will be when it is needed (`hooks.Handle`)."""

    resident_bytes = 0
    offloaded_bytes = 0
    policy = "recompute"

    def __init__(self, region: Region, value: SavedValue) -> None:
        self._region = region
        self.op = value.op
        self.slot = value.slot
        self.spec = (value.array.shape, value.array.dtype)
        self.storage: Storage = value.storage
        self.version = value.storage.version
        self.array: Any = None
        self._recomputed_version = 0

    def load(self) -> Any:
        """The value, computed again if need be; the place is empty afterwards (note, rule 3)."""
        return self._region.take(self)

    def check(self, number: int, value: SavedValue) -> None:
        """Compare what the second run saves here with what the first did (note, rules 2 and 4).

        Raises:
            CheckpointError: if it is something else.
            RuntimeError: if it is the same memory, written since.
        """
        got = (value.op, value.slot, value.array.shape, value.array.dtype)
        if got != (self.op, self.slot, *self.spec):
            raise CheckpointError(
                "stowgrad.checkpoint: a different value was saved when the region was computed again\n"
                f"  saved value {number}, in forward: {_text(self.op, self.slot, *self.spec)}\n"
                f"  saved value {number}, recomputed: {_text(*got)}\n"
                "The function must do the same again: look for global state, or randomness from another generator."
            )
        # Memory that the region made itself has a new storage, and so has an input that was stored elsewhere. Another
        # storage in place of a parameter's means that the parameter was given other data.
        fixed = value.storage is self.storage or self.storage.category in _LASTING
        if fixed and self.storage.version != self.version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation:"
                f" {_text(self.op, self.slot, *self.spec)} was read by a checkpointed region at version {self.version}"
                f" and is at version {self.storage.version} now. Run backward before changing it."
            )

    def fill(self, value: SavedValue) -> None:
        """Hold the value until it is read."""
        self.array = value.array
        self._recomputed_version = value.storage.version

    def pop(self) -> Any:
        """The value, if it is here and as it was saved; the place is empty afterwards.

        Raises:
            RuntimeError: if the region itself wrote into it after it was saved.
        """
        array, self.array = self.array, None
        if array is not None:
            storage = storage_of(array)
            if storage is not None and storage.version != self._recomputed_version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation:"
                    f" {_text(self.op, self.slot, *self.spec)} was changed by the checkpointed region after it was"
                    " saved. Change a copy (clone())."
                )
        return array


def _text(op: str, slot: str, shape: tuple[int, ...], dtype: Any) -> str:
    return f"{op}, {slot!r} of shape {list(shape)}, {dtype}"


class _Emptying(PolicyEntry):
    """Active in the first run: every value that is saved becomes a place."""

    def __init__(self, region: Region) -> None:
        self._region = region

    def describe(self) -> str:
        return "checkpoint"

    def save(self, value: SavedValue, outer: tuple[PolicyEntry, ...]) -> Handle:
        place = Place(self._region, value)
        self._region.places.append(weakref.ref(place))
        return place


class _Filling(PolicyEntry):
    """Active in the second run: values that are saved fill the places."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self._number = 0

    def describe(self) -> str:
        return "checkpoint (recompute)"

    @property
    def saved(self) -> int:
        """How many values have been saved."""
        return self._number

    def save(self, value: SavedValue, outer: tuple[PolicyEntry, ...]) -> None:
        places, number = self._region.places, self._number
        self._number += 1
        if number < len(places):
            place = places[number]()
            if place is not None:
                place.check(number, value)
                place.fill(value)
        if self._number == len(places):
            raise _EnoughError


class Region:
    """One call of a checkpointed function."""

    def __init__(
        self, function: Callable[..., Any], inputs: SavedInputs, random_state: RandomState | NoRandomState
    ) -> None:
        self.places: list[weakref.ref[Place]] = []
        self._function = function
        self._inputs = inputs
        self._random_state = random_state
        self._lock = threading.RLock()

    def first_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, with places for all that it saves."""
        with _Emptying(self), self._random_state.recorded():
            return self._function(*args, **kwargs)

    def take(self, place: Place) -> Any:
        """The value of a place, which is empty afterwards."""
        with self._lock:
            array = place.pop()
            if array is None:
                self._fill()
                array = place.pop()
            task = current_task()
            if task is None:
                self.empty()
            elif self.empty not in task.cleanups:
                task.cleanups.append(self.empty)
        return array

    def empty(self) -> None:
        """Drop the values in all places, but not while another pass computes or reads them."""
        with self._lock:
            for reference in self.places:
                place = reference()
                if place is not None:
                    place.array = None

    def _fill(self) -> None:
        filling = _Filling(self)
        args, kwargs = self._inputs.load()
        token = _recomputing.set(True)
        try:
            as_in_forward = Under(hooks=(filling,), grad_enabled=True, inference=False, disabled=None)
            with events.span("phase", "recompute"), as_in_forward:
                with self._random_state.restored():
                    self._function(*args, **kwargs)
        except _EnoughError:
            return
        except BaseException:
            self.empty()
            raise
        finally:
            _recomputing.reset(token)
        self.empty()
        raise CheckpointError(
            "stowgrad.checkpoint: a different number of tensors was saved when the region was computed again\n"
            f"  in forward: {len(self.places)}\n  recomputed: {filling.saved}\n"
            "The function must do the same again: look for conditions that have changed."
        )
