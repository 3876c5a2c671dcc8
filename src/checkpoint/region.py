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
5. The second run draws the same random numbers, and sees the context variables and defaults that the first began
   with.
6. The signal that ends the second run early is no `Exception`: the function can't swallow it by accident. Where it is
   swallowed all the same, the next op raises it again.
7. If the op that saves the last values saves inputs only, the second run ends before it computes: a third of the
   products of a transformer's block.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import Any, NamedTuple

from ..autograd import Tensor
from ..autograd.engine import current_task, run_in_task
from ..autograd.recomputing import Recomputing
from ..memory import Storage, events
from ..saved_tensors.hooks import Handle, PolicyEntry, SavedValue
from ..saved_tensors.state import Under
from .comparison import Comparison
from .group import current_group
from .inputs import SavedInputs
from .oplog import OpLog
from .places import KEPT, Place
from .surroundings import Surroundings

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


class _Tail:
    """The op that saves last in a region, if it saves inputs only (note, rule 7).

    Attributes:
        op: its number; -1 if there is none.
        begin: the number of the first value that it saves.
        positions: which of its inputs the values are; empty if one of them is no input.
        needs: which of its inputs required grad: what it saves depends on that.
    """

    def __init__(self) -> None:
        self.op = -1
        self.begin = 0
        self.positions: list[int] = []
        self.needs: list[bool] = []

    def saves(self, op: int, number: int, position: int | None, needs: list[bool]) -> None:
        """Told of each value of the first run that is saved: by which op (-1 for none), and which of its inputs."""
        if op != self.op or op < 0:
            self.op, self.begin, self.positions, self.needs = op, number, [], needs
        if position is None or number != self.begin + len(self.positions):
            self.positions = []
        else:
            self.positions.append(position)


class Emptying(PolicyEntry):
    """Active in the first run: every value that is saved becomes a place."""

    follows_ops = True

    def __init__(self, region: Region) -> None:
        self.region = region
        # The inputs of the op that ran last: the identity of their arrays (it saves right after, while they are there)
        # and whether they require grad.
        self._last: tuple[str, list[int], list[bool]] = "", [], []

    def describe(self) -> str:
        return "checkpoint"

    def save(self, value: SavedValue, outer: tuple[PolicyEntry, ...]) -> Handle:
        region = self.region
        place = Place(region, value, region.options.verify)
        name, inputs, needs = self._last
        ran, array = value.op == name, id(value.array)
        position = inputs.index(array) if ran and array in inputs else None
        region.tail.saves(len(region.log.ops) - 1 if ran else -1, len(region.places), position, needs)
        region.places.append(weakref.ref(place))
        return place

    def after_op(self, op: str, inputs: tuple[Any, ...], results: list[Any]) -> None:
        self.region.log.ran(op, inputs, results)
        self._last = op, [id(getattr(value, "_array", None)) for value in inputs], _needs(inputs)

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        self.region.log.writes(op, inputs, target)
        self._last = "", [], []


class _Filling(PolicyEntry):
    """Active in the second run: values that are saved fill the places."""

    follows_ops = True

    def __init__(self, region: Region) -> None:
        self._region = region
        self.comparison = Comparison(region.log, region.options.exact, region.options.debug)
        self.saved = 0
        self._ended = False
        self._as_computed: list[weakref.ref[Place]] = []

    def describe(self) -> str:
        return "checkpoint (recompute)"

    def before_op(self, op: str, inputs: tuple[Any, ...]) -> None:
        self._go_on(op, inputs)
        tail = self._region.tail
        if tail.op != self.comparison.number or tail.begin != self.saved or not self._region.options.early_stop:
            return
        if _needs(inputs) == tail.needs:
            self._end_with([inputs[position] for position in tail.positions], op)

    def _end_with(self, values: list[Any], op: str) -> None:
        """Fill the last places with what an op is about to read (note, rule 7)."""
        places = self._region.places
        if len(places) - self.saved != len(values) or not all(isinstance(value, Tensor) for value in values):
            return
        for value in values:
            place = places[self.saved]()
            slot = "" if place is None else place.slot
            self.save(SavedValue(value._array, value._storage, op, slot), ())

    def written(self, op: str, inputs: tuple[Any, ...], target: Any) -> None:
        self._go_on(f"{op}_", inputs)

    def before_write(self, storage: Storage) -> None:
        for reference in self._as_computed:
            place = reference()
            if place is not None:
                place.copy_before_write(storage)

    def _go_on(self, op: str, inputs: tuple[Any, ...]) -> None:
        if self._ended:
            raise _EnoughError
        self.comparison.ran(op, inputs)

    def save(self, value: SavedValue, outer: tuple[PolicyEntry, ...]) -> None:
        places, number, options = self._region.places, self.saved, self._region.options
        self.saved += 1
        if number < len(places):
            place = places[number]()
            if place is not None:
                place.check(number, value, self.comparison, options.exact)
                place.fill(value)
                if value.slot.startswith(KEPT):
                    self._as_computed.append(places[number])
        if self.saved == len(places) and options.early_stop:
            self._ended = True
            raise _EnoughError


def _needs(inputs: tuple[Any, ...]) -> list[bool]:
    return [isinstance(value, Tensor) and value.requires_grad for value in inputs]


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
        surroundings: Surroundings,
        options: Options,
    ) -> None:
        self.places: list[weakref.ref[Place]] = []
        self.options = options
        self.log = OpLog(inputs.storages)
        self.tail = _Tail()
        self._function = function
        self._inputs = inputs
        self._surroundings = surroundings
        self._lock = threading.RLock()
        self._context = copy_context()
        self._again: AbstractContextManager[Any] | None = None
        self._cleanup = _Cleanup(self)

    def first_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, with places for all that it saves.

        Raises:
            RuntimeError: if the user's context swallows an exception of the function.
        """
        with Emptying(self), self._surroundings.recorded():
            if self.options.context_fn is None:
                result = self._function(*args, **kwargs)
            else:
                result = self._first_run_in_context(self.options.context_fn, args, kwargs)
        self.log.finish()
        return result

    def needs_result(self, op: int, saved: int) -> bool:
        """Whether the second run gets so far that it asks for the results of an op, as far as the first run has come.

        Args:
            op: its number.
            saved: how many values had been saved when it had run.
        """
        if not self.options.early_stop:
            return True
        if self.tail.op == op and self.tail.begin == saved:
            return not self.tail.positions
        return len(self.places) > saved

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
        raise filling.comparison.counts(len(self.places), filling.saved)

    def _second_run(self, filling: _Filling, args: list[Any], kwargs: dict[str, Any]) -> None:
        as_in_forward = Under(hooks=(filling,), grad_enabled=True, inference=False, disabled=None)
        with events.span("phase", "recompute"), Recomputing(), as_in_forward, self._surroundings.restored():
            if self._again is None:
                self._function(*args, **kwargs)
            else:
                with self._again:
                    self._function(*args, **kwargs)
