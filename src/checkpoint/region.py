"""One call of a checkpointed function: the places of its saved values, and how they are filled again.

NOTE [ A checkpointed region ]
1. The function runs once, recorded as usual; every value that its nodes save becomes an empty *place*, in order.
2. The first read of a place in a pass runs the function again until as many values have been saved as there are places.
   They fill the places by their order. The ops of the second run must be those of the first, and so must op, slot,
   shape, dtype and strides of what is saved.
3. A filled place is emptied when it is read, and all that are left when the pass ends, however it ends; those of an
   `ExecGroup` when the group ends.
4. The function's tensor arguments are saved like a node's inputs, outside of the region, so that policies around it
   apply to them. Everything else that it reads is in its log (NOTE [ What a region reads ]).
5. The second run draws the same random numbers, and sees the context variables that the first began with.
6. The signal that ends the second run early is no `Exception`: the function can't swallow it by accident.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import Any, NamedTuple

from ..autograd.engine import current_task, run_in_task
from ..autograd.recomputing import Recomputing
from ..memory import events
from ..saved_tensors.hooks import Handle, PolicyEntry, SavedValue
from ..saved_tensors.state import Under
from .group import current_group
from .inputs import SavedInputs
from .oplog import CheckpointError, Comparison, OpLog
from .places import Place
from .surroundings import NoRandomState, RandomState

ContextFn = Callable[[], tuple[AbstractContextManager[Any], AbstractContextManager[Any]]]


class Options(NamedTuple):
    """How a region is checked and run again: see `checkpoint`."""

    early_stop: bool = True
    exact: bool = True
    debug: bool = False
    verify: bool = False
    context_fn: ContextFn | None = None


class _EnoughError(BaseException):
    """Ends the second run once all places are filled (note, rule 6)."""


class Emptying(PolicyEntry):
    """Active in the first run: every value that is saved becomes a place."""

    follows_ops = True

    def __init__(self, region: Region) -> None:
        self._region = region

    def describe(self) -> str:
        return "checkpoint"

    def save(self, value: SavedValue, outer: tuple[PolicyEntry, ...]) -> Handle:
        place = Place(self._region, value, self._region.options.verify)
        self._region.places.append(weakref.ref(place))
        return place

    def after_op(self, op: str, inputs: tuple[Any, ...], results: list[Any]) -> None:
        self._region.log.ran(op, inputs, results)

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        self._region.log.writes(op, inputs, target)


class _Filling(PolicyEntry):
    """Active in the second run: values that are saved fill the places."""

    follows_ops = True

    def __init__(self, region: Region) -> None:
        self._region = region
        self.comparison = Comparison(region.log, region.options.exact, region.options.debug)
        self.saved = 0

    def describe(self) -> str:
        return "checkpoint (recompute)"

    def before_op(self, op: str, inputs: tuple[Any, ...]) -> None:
        self.comparison.ran(op)

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        self.comparison.ran(f"{op}_")

    def save(self, value: SavedValue, outer: tuple[PolicyEntry, ...]) -> None:
        places, number, options = self._region.places, self.saved, self._region.options
        self.saved += 1
        if number < len(places):
            place = places[number]()
            if place is not None:
                place.check(number, value, self.comparison, options.exact)
                place.fill(value)
        if self.saved == len(places) and options.early_stop:
            raise _EnoughError


class _Cleanup:
    """Empties a region at the end of a pass; until then it doesn't hold it, for its inputs may be freed before."""

    __slots__ = ("_region",)

    def __init__(self, region: Region) -> None:
        self._region = weakref.ref(region)

    def __call__(self) -> None:
        region = self._region()
        if region is not None:
            region.empty()


class Region:
    """One call of a checkpointed function."""

    def __init__(
        self,
        function: Callable[..., Any],
        inputs: SavedInputs,
        random_state: RandomState | NoRandomState,
        options: Options,
    ) -> None:
        self.places: list[weakref.ref[Place]] = []
        self.options = options
        self.log = OpLog(inputs.storages)
        self._function = function
        self._inputs = inputs
        self._random_state = random_state
        self._lock = threading.RLock()
        self._context = copy_context()
        self._again: AbstractContextManager[Any] | None = None
        self._cleanup = _Cleanup(self)

    def first_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, with places for all that it saves.

        Raises:
            RuntimeError: if the user's context swallows an exception of the function.
        """
        with Emptying(self), self._random_state.recorded():
            if self.options.context_fn is None:
                result = self._function(*args, **kwargs)
            else:
                result = self._first_run_in_context(self.options.context_fn, args, kwargs)
        self.log.finish()
        return result

    def _first_run_in_context(self, context_fn: ContextFn, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        first, self._again = context_fn()
        finished = False
        with first:
            result = self._function(*args, **kwargs)
            finished = True
        if not finished:
            raise RuntimeError("checkpoint: the forward context of context_fn swallowed an exception of the function")
        return result

    def take(self, place: Place) -> Any:
        """The value of a place, which is empty afterwards (note, rule 3)."""
        group = current_group()
        with self._lock:
            array = place.read(keep=group is not None)
            if array is None:
                self._fill()
                array = place.read(keep=group is not None)
            task = current_task()
            if group is not None:
                group.empty_at_end(self)
            elif task is None:
                self.empty()
            elif self._cleanup not in task.cleanups:
                task.cleanups.append(self._cleanup)
        return array

    def empty(self) -> None:
        """Drop the values in all places, but not while another pass computes or reads them."""
        with self._lock:
            for reference in self.places:
                place = reference()
                if place is not None:
                    place.array = None

    def _fill(self) -> None:
        self.log.check_unchanged()
        filling = _Filling(self)
        args, kwargs = self._inputs.load()
        try:
            # The pass that reads goes on in the context of the first run.
            self._context.copy().run(run_in_task, current_task(), self._second_run, filling, args, kwargs)
        except _EnoughError:
            return
        except BaseException:
            self.empty()
            raise
        if filling.saved == len(self.places):
            return
        self.empty()
        raise CheckpointError(
            "stowgrad.checkpoint: a different number of tensors was saved when the region was computed again\n"
            f"  in forward: {len(self.places)}\n  recomputed: {filling.saved}\n{filling.comparison.listing()}"
            "The function must do the same again: look for conditions that have changed."
        )

    def _second_run(self, filling: _Filling, args: list[Any], kwargs: dict[str, Any]) -> None:
        as_in_forward = Under(hooks=(filling,), grad_enabled=True, inference=False, disabled=None)
        with events.span("phase", "recompute"), Recomputing(), as_in_forward, self._random_state.restored():
            if self._again is None:
                self._function(*args, **kwargs)
            else:
                with self._again:
                    self._function(*args, **kwargs)
