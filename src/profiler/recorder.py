"""`Recorder`: the observer that turns the event stream into running figures.

NOTE [ Recording without a lock ]
1. Events come from any thread, and also from inside the recorder itself: a collection of garbage may start anywhere and
   free storages. So each event is first put into a queue, with all that only its own thread knows (op, module, line).
2. Whoever gets the flag empties the queue into the `Book`; whoever doesn't leaves its event to the one who has it.
   Nobody waits, so nothing can deadlock with the pool's lock.
3. An event is removed from the queue after it was processed, so that a signal in between does not lose it.
4. Spans keep names, never tensors, modules or nodes: watching does not change how long anything lives.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from types import FrameType
from typing import Any, Literal, NamedTuple, TypeAlias

from ..memory import CPU, Storage, events, pool, settle
from ..memory.pool import live_storages
from ..saved_tensors.state import current
from .accounts import Account, Book
from .block import Block
from .holders import variables
from .log import DEFAULT_MOST, Logs
from .module_names import ModuleNames, gradient_names, state_names, tensor_names
from .resident import ResidentSampler
from .sites import RawSite, user_site, user_stack

Record: TypeAlias = Literal["peaks", "ledger", "all"]
RECORDS = ("peaks", "ledger", "all")
_EVENT_BYTES = 16
_MOST_ORIGINS = 65536
_GROWTH = 100


class Span:
    """An open span of one thread: a phase, a module, an op or a node.

    Attributes:
        op: the name of the op or node, or of what an optimizer does; empty for others.
        module: the path of the innermost module, or empty.
        site: the line that the span was opened at, where it is known; `_UNKNOWN` before it was looked for.
    """

    __slots__ = ("kind", "module", "name", "node", "op", "parent", "site")

    def __init__(self, kind: str, name: str, op: str, module: str, parent: Span | None) -> None:
        self.kind = kind
        self.name = name
        self.op = op
        self.module = module
        self.parent = parent
        self.node: tuple[int, weakref.ref[Any]] | None = None  # of the graph, with its number
        self.site: RawSite | bool | None = False  # False: not looked for yet


class Progress(NamedTuple):
    """Where a recording is: step, phase, what is live, the peak, and the peaks of the current step's phases so far."""

    step: int
    phase: str
    live_bytes: int
    peak_bytes: int
    phases: dict[str, int]


def _is_a_devices(storage: Storage) -> bool:
    """Whether the pool of its device counts it; a program may have made pools of its own."""
    return storage.pool is pool(storage.pool.device)


class Recorder(events.Observer):
    """Watches memory from `start` to `stop`.

    Args:
        record: "peaks" for figures and the live set at the peak; "ledger" adds what was saved for backward, by row, who
            holds what at the peak, and the events of the step with the peak, for hints; "all" keeps the events of all
            steps, and stacks.
        max_events: how many events are kept in memory.
        stacks: how many of the user's frames are kept of an allocation, in mode "all".

    Raises:
        ValueError: for another mode.
    """

    def __init__(
        self,
        record: Record = "ledger",
        *,
        max_events: int = DEFAULT_MOST,
        stacks: int = 8,
    ) -> None:
        if record not in RECORDS:
            raise ValueError(f"unknown recording mode {record!r}; expected one of {', '.join(RECORDS)}")
        self.record = record
        self._follows = record != "peaks"
        self.stacks = stacks if record == "all" else 1
        logs = Logs(record == "all", max_events) if self._follows else None
        self.book = Book(by_row=self._follows, logs=logs)
        self.resident = ResidentSampler()
        self.events = 0
        self.profiler_ns = 0
        self.started_ns = self.stopped_ns = 0
        self._modules = ModuleNames()
        self._queue: deque[Any] = deque()
        self._flag = threading.Lock()
        self._tops: dict[int, Span | None] = {}
        self._latest: Span | None = None
        self._optimizer: object = None  # while it steps
        self._named_states = 0
        self._looked_at = -1, 0  # the step in which variables were looked at last, and the peak that asks for more
        self._last_node = ""
        self._origins: dict[int, tuple[str, RawSite | None]] = {}  # module and line of an op, by its node's number

    # -- from start to stop --------------------------------------------------------------------------------------------

    def start(self, step: int = 0) -> None:
        """Watch from now on; what is live already counts as allocated in the phase "setup".

        Args:
            step: the number of the first step.
        """
        self.book.number_from(step)
        self.started_ns = perf_counter_ns()
        events.add_observer(self)
        for storage in list(live_storages.values()):
            owner = storage()  # held: a storage that dies before it is known would be counted for ever
            if owner is not None and _is_a_devices(storage):
                self._queue.append(Block(storage, "", "", None, self.started_ns))
            del owner
        self._put(self.book.begin_here, self.started_ns)
        self.resident.sample(self._devices())

    def stop(self) -> None:
        """Watch no longer; stopping twice has no effect."""
        if self not in events.observers:
            return
        self.look_around(sys._getframe(1))
        settle()
        events.remove_observer(self)
        self.resident.sample(self._devices())
        self.stopped_ns = perf_counter_ns()
        self._put(self.book.settle, self.stopped_ns)

    def look_around(self, frame: FrameType | None) -> None:
        """Name what the variables of a frame and its callers hold now, as far as no name is known.

        Args:
            frame: where a program has ended or failed.
        """
        if self._follows:
            self._put(self.book.name_the_rest, variables(frame))

    def settle(self) -> None:
        """Bring the figures up to date while the recording goes on."""
        settle()
        self._put(self.book.settle, perf_counter_ns())

    def elapsed_ns(self) -> int:
        """The length of the recording up to its end or up to now."""
        return (self.stopped_ns or perf_counter_ns()) - self.started_ns

    def progress(self) -> Progress:
        """Where the recording is: nothing is settled or counted for it."""
        book = self.book
        account = max(list(book.accounts.values()), key=Account.importance, default=None)
        if account is None:
            return Progress(book.step, book.phase, 0, 0, {})
        peaks = {name: record.peak_bytes for name, record in list(account.records.items())}
        return Progress(book.step, book.phase, account.used, account.peak, peaks)

    def nbytes(self) -> int:
        """A rough size of what the recorder itself keeps."""
        book = self.book
        blocks = len(book.live) * (sys.getsizeof(Block) // 4 + 100)
        journals = sum(len(account.journal or ()) for account in book.accounts.values()) * _EVENT_BYTES
        records = (len(book.done) + 8) * 400
        ledgers = sum(ledger.nbytes() for ledger in (book.ledger, *book.ledgers.values()))
        logs = 0 if book.logs is None else book.logs.nbytes()
        return blocks + journals + records + ledgers + logs + 150 * len(self._origins)

    def _devices(self) -> list[Any]:
        return list(self.book.accounts) or [CPU]

    # -- the queue (NOTE [ Recording without a lock ]) -----------------------------------------------------------------

    def _put(self, call: Callable[..., None], *arguments: Any) -> None:
        self._queue.append((call, *arguments))
        self._pump()

    def _pump(self) -> None:
        queue = self._queue
        while queue and self._flag.acquire(blocking=False):
            try:
                while queue:
                    event = queue[0]
                    kind = type(event)
                    if kind is Block:
                        self.book.allocate(event)
                    else:
                        event[0](*event[1:])
                    queue.popleft()
                    self.events += 1
            finally:
                self._flag.release()

    # -- storages ------------------------------------------------------------------------------------------------------

    def allocated(self, storage: Storage) -> None:
        if not _is_a_devices(storage):
            return
        now = perf_counter_ns()
        thread = get_ident()
        span = self._tops.get(thread)
        if span is None:
            site = user_site(2)
            if site is None and thread not in self._tops:
                span = self._latest  # a worker thread of ours: it works for whoever opened the latest span
        elif span.site is not False:
            site = span.site  # type: ignore[assignment]  # True does not occur
        else:
            site = user_site(2)
            if span.kind == "op" or span.kind == "node":
                span.site = site
        if span is None:
            block = Block(storage, "", "", site, now)
        else:
            block = Block(storage, span.op, span.module, site, now)
        if self.stacks > 1:
            block.stack = user_stack(self.stacks, 2)
        self._queue.append(block)
        self._pump()
        self.profiler_ns += perf_counter_ns() - now

    def freed(self, storage: Storage) -> None:
        now = perf_counter_ns()
        span = self._tops.get(get_ident())
        self._queue.append((self.book.free, storage.id, (span.op if span is not None else "") or self._last_node))
        self._pump()
        self.profiler_ns += perf_counter_ns() - now

    def relabelled(self, storage: Storage, old_category: str) -> None:
        self._put(self.book.relabel, storage.id, storage.category)

    # -- spans ---------------------------------------------------------------------------------------------------------

    def begin(self, kind: str, name: str, subject: object = None) -> None:
        if kind == "phase" or kind == "step" or (kind == "node" and self._follows):
            settle()  # what died before it begins is not live in it
        now = perf_counter_ns()
        thread = get_ident()
        parent = self._tops.get(thread)
        if kind == "op":
            span = _op_span(name, parent)
        elif kind == "node":
            span = self._node_span(name, subject, parent)
        elif kind == "module":
            span = self._begin_module(name, subject, parent, now)
        else:
            span = self._begin_phase(kind, name, subject, parent, now)
        self._tops[thread] = self._latest = span
        self.profiler_ns += perf_counter_ns() - now

    def end(self, kind: str, name: str) -> None:
        if kind == "phase" or kind == "step" or (kind == "node" and self._follows):
            settle()
        now = perf_counter_ns()
        thread = get_ident()
        span = self._tops.get(thread)
        while span is not None and (span.kind != kind or span.name != name):
            span = span.parent  # an exception left spans inside open
        if span is not None:
            self._tops[thread] = self._latest = span.parent
        if kind == "phase":
            self._end_phase(name, now)
        elif kind == "step":
            self._put(self.book.end_step, now)
        elif kind == "op" or kind == "node":
            if span is not None and span.node is not None:
                self._end_node(span, now)
            self._after_op(now)
        elif kind == "module" and self._follows:
            self._put(self.book.module, "" if span is None else span.module, False)
        self.profiler_ns += perf_counter_ns() - now

    def _node_span(self, name: str, node: object, parent: Span | None) -> Span:
        """A node takes module and line from its op in forward, if that was recorded."""
        span = Span("node", name, name, "" if parent is None else parent.module, parent)
        origin = self._origins.get(getattr(node, "sequence_nr", -1))
        if origin is not None:
            span.module, span.site = origin
        number = getattr(node, "sequence_nr", None)
        if number is not None and self._follows:
            span.node = number, weakref.ref(node)
            self._put(self.book.node_begins, number)
        return span

    def _end_node(self, span: Span, now: int) -> None:
        assert span.node is not None, "asked for nodes only"
        number, reference = span.node
        released = not getattr(reference(), "saved_variables", None)
        self._last_node = span.name
        self._put(self.book.node_ends, number, released, now)

    def _begin_module(self, name: str, module: object, parent: Span | None, now: int) -> Span:
        inside = "" if parent is None else parent.module
        path, is_new = self._modules.path(module, name, inside)
        if is_new:
            for id_, text in tensor_names(module):
                self.book.name(id_, text, type(module).__name__)
        if not inside:
            self._lean_to("forward" if current().grad_enabled else "eval", now)
        if self._follows:
            self._put(self.book.module, path, True)
        return Span("module", name, "", path, parent)

    def _begin_phase(self, kind: str, name: str, subject: object, parent: Span | None, now: int) -> Span:
        op = module = ""
        if kind == "phase":
            if name == "optimizer":
                self._name_gradients()
                self._optimizer = subject
                op = "" if subject is None else f"{type(subject).__name__}.step"
            elif parent is not None:
                module = parent.module
            if self._follows and name in ("backward", "optimizer"):
                self._put(self.book.know, variables(sys._getframe(1)))
            self._put(self.book.begin_phase, name, now)
            self.resident.sample(self._devices(), now=now)
        elif kind == "step":
            self._put(self.book.begin_step, now)
        return Span(kind, name, op, module, parent)

    def _end_phase(self, name: str, now: int) -> None:
        self.resident.sample(self._devices(), now=now)
        if name == "optimizer":
            self._name_states(self._optimizer)
            self._optimizer = None
            self._origins = {}  # of this step's graph
        self._put(self.book.end_phase, name, now)

    def _lean_to(self, default: str, now: int) -> None:
        book = self.book
        if book.default != default and not book.phases:
            settle()
            self._put(book.lean_to, default, now)

    def _name_gradients(self) -> None:
        for root in self._modules.roots():
            for id_, text in gradient_names(root):
                self.book.name(id_, text, type(root).__name__)

    def _name_states(self, optimizer: object) -> None:
        """Name the state of an optimizer's parameters when there is more of it than before."""
        size = self.book.category_bytes("optimizer_state")
        if size > self._named_states:
            for id_, text in state_names(optimizer, self.book.name_of):
                self.book.name(id_, text)
        self._named_states = size

    def _after_op(self, now: int) -> None:
        """After an op in which a peak was reached: its memory was written to by now, and variables hold what they do.

        Between two looks at the variables in one step the peak must have grown by a hundredth, or a first step would
        look after every op; in backward they are what they were when it began.
        """
        book = self.book
        accounts = book.new_peaks
        if not accounts:
            return
        book.new_peaks = []
        self.resident.sample(self._devices(), now=now)
        if not self._follows or book.phases:
            return
        peak = sum(account.peak for account in book.accounts.values())
        step, least = self._looked_at
        if step != book.step or peak > least:
            self._looked_at = book.step, peak + peak // _GROWTH
            self._put(book.name_peaks, variables(sys._getframe(1)), accounts)

    # -- saved values --------------------------------------------------------------------------------------------------

    def recorded(self, node: Any) -> None:
        now = perf_counter_ns()
        span = self._tops.get(get_ident())
        origins = self._origins
        origins[node.sequence_nr] = ("" if span is None else span.module, self._line(span))
        if len(origins) > _MOST_ORIGINS:
            origins.pop(next(iter(origins)), None)
        if self.book.default != "forward":
            self._lean_to("forward", now)
        if self._follows:
            edges = getattr(node, "next_edges", ())
            self._put(
                self.book.recorded,
                node.sequence_nr,
                tuple([before.sequence_nr for before, _ in edges if before is not None]),
            )
        self.profiler_ns += perf_counter_ns() - now

    def _line(self, span: Span | None) -> RawSite | None:
        """The user's line of what happens inside a span, on this thread."""
        if span is None or (span.kind != "op" and span.kind != "node"):
            return user_site(3)
        if span.site is False:
            span.site = user_site(3)
        return span.site  # type: ignore[return-value]  # True does not occur

    def saved(self, record: Any) -> None:
        now = perf_counter_ns()
        span = self._tops.get(get_ident())
        if self.book.default != "forward":
            self._lean_to("forward", now)
        line = self._line(span) if self._follows else None
        self._put(self.book.saved, record, "" if span is None else span.module, line)
        self.profiler_ns += perf_counter_ns() - now

    def unpacked(self, record: Any, seconds: float) -> None:
        self._put(self.book.unpacked, record, round(seconds * 1e9))


def _op_span(name: str, parent: Span | None) -> Span:
    """What an op does inside another op or a node counts for that one."""
    if parent is None:
        return Span("op", name, name, "", None)
    if parent.kind != "op" and parent.kind != "node":
        return Span("op", name, name, parent.module, parent)
    span = Span("op", name, parent.op, parent.module, parent)
    span.site = parent.site
    return span
