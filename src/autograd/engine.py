"""The engine: one pass backward through a graph.

NOTE [ A pass ]
1. Nodes that the roots reach are walked first, without recursion, and the gradients that each will receive are counted.
   If only some inputs are asked for, nodes that lead to none of them are left out.
2. A node is ready when all its gradients have arrived; ready nodes run latest first, accumulators before all.
3. At a node: tensor hooks, retained gradients, captures, pre-hooks, then its formula, then post-hooks, then its saved
   values are freed. At a leaf: tensor hooks, captures, pre-hooks, accumulation, post-accumulate hooks, post-hooks.
4. A sum of gradients that the engine made itself, or an array that the node before made for this purpose alone, is
   *owned*: more is added to it in place, and a leaf may take it as its gradient. Everything else is copied first.
5. Nodes of other devices than the host run on threads of their own (NOTE [ Threads of a pass ]).
6. What a node saved is freed by one pass only: of two that share it on different threads, the later one fails.
7. A pass inside a pass may lie inside another; every so many levels it gets a fresh thread, for the depth of its stack.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias, TypeVar

from ..memory import CPU, Device, events
from ..saved_tensors.saved_variable import Edge
from ..saved_tensors.state import current, set_state
from .anomaly_mode import run_node
from .hook_calls import call_post_accumulate_hooks, call_post_hooks, call_pre_hooks, call_tensor_hook
from .node import AccumulateGrad
from .order import count_dependencies, execution_order, leading_to
from .placed import Placed
from .record import BoxedGradients
from .values import OnArrays, OnTensors, whole
from .variable import Metadata
from .workers import run_on_device, run_on_fresh_thread

# A gradient on its way: an array, or a tensor under create_graph.
Gradient: TypeAlias = Any
T = TypeVar("T")
_task_ids = itertools.count()
_ties = itertools.count()
_running: ContextVar[GraphTask | None] = ContextVar("stowgrad_pass", default=None)
_accumulation = threading.Lock()
# A level takes about a dozen Python frames and the user's; the interpreter allows 1000 on a thread.
_LEVELS_ON_A_THREAD = 20
# Devices whose nodes run on the thread that called backward.
_HERE = ("cpu", "meta")
_ON_TENSORS, _ON_ARRAYS = OnTensors(), OnArrays()


class GraphTask:
    """One call of `backward` or `grad`.

    Attributes:
        id: a number of its own.
        keep_graph: whether saved values stay.
        captures: the edges whose gradients are asked for.
        accumulate: whether leaves (those among ``captures`` if there are any) accumulate.
        cleanups: called when the pass has ended, however it ended.
        callbacks: called when all gradients have been accumulated.
    """

    def __init__(self, keep_graph: bool, create_graph: bool, captures: Iterable[Edge], accumulate: bool) -> None:
        self.id = next(_task_ids)
        if self.id == 0 and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
        self.keep_graph = keep_graph
        self.values = _ON_TENSORS if create_graph else _ON_ARRAYS
        self.captured: dict[Edge, Gradient] = dict.fromkeys(captures)
        self.restricted = bool(self.captured)
        self.accumulate = accumulate
        self.cleanups: list[Callable[[], None]] = []
        self.callbacks: deque[Callable[[], object]] = deque()
        self._by_node: dict[Any, list[int]] = {}
        for node, number in self.captured:
            self._by_node.setdefault(node, []).append(number)
        self._roots: list[Any] = []
        self._buffers: dict[Any, list[Gradient]] = {}
        self._owned: set[Any] = set()
        self._dependencies: dict[Any, int] = {}
        self._needed: set[Any] | None = None
        self._on_a_path: set[Any] = set()
        self._ready: list[tuple[Any, ...]] = []
        self._device = CPU
        self._depth = 0
        self._noted = False

    def run(self, roots: list[tuple[Edge, Gradient]]) -> None:
        """Send gradients into the graph and run it to its leaves; the list is empty afterwards."""
        outer = current_task()
        if outer is not None:
            self._depth = outer._depth + 1
        if self._depth and self._depth % _LEVELS_ON_A_THREAD == 0:
            run_on_fresh_thread(functools.partial(self._run, roots), self._stop)
        else:
            self._run(roots)

    def _run(self, roots: list[tuple[Edge, Gradient]]) -> None:
        before, state = current_task(), current()
        try:
            try:
                _running.set(self)
                set_state(state.with_grad(True) if self.values.recorded else state.for_pass())
                if events.observers:
                    with events.span("phase", "backward"):
                        self._run_all(roots)
                else:
                    self._run_all(roots)
            finally:
                set_state(state)
                _running.set(before)
        finally:
            set_state(state)  # again: Ctrl-C may have come between the two lines above
            _running.set(before)
            roots.clear()
            self._forget()
            for cleanup in self.cleanups:
                cleanup()

    def _run_all(self, roots: list[tuple[Edge, Gradient]]) -> None:
        self._start(roots)
        while self._ready:
            self._run_part()
        while self.callbacks:
            self.values.call(self.callbacks.popleft())

    def wanted_of(self, node: Any) -> tuple[bool, ...]:
        """For each input of a node, whether this pass uses its gradient."""
        needed = self._needed
        if needed is None:
            return node.needs_grad  # type: ignore[no-any-return]
        pairs = zip(node.needs_grad, node.next_edges, strict=True)
        return tuple([needs and successor in needed for needs, (successor, _) in pairs])

    def reaches(self, node: Any) -> bool:
        """Whether gradients arrive at a node in this pass."""
        return node in self._dependencies and (self._needed is None or node in self._needed or node in self._roots)

    def order(self) -> list[Any]:
        """The nodes in the order in which this pass runs them, those that have run included."""
        return execution_order(self._roots, self._needed)

    # -- before and after ---------------------------------------------------------------------------------------------

    def _start(self, roots: list[tuple[Edge, Gradient]]) -> None:
        self._roots = list(dict.fromkeys([edge[0] for edge, _ in roots]))
        self._dependencies = count_dependencies(self._roots, self._by_node)
        if self.restricted:
            self._needed, self._on_a_path = leading_to(self._by_node, self._dependencies)
            if self.accumulate:  # `backward` runs these themselves too
                self._on_a_path.update(self._by_node)
        for (node, number), gradient in roots:
            self._deposit(node, number, gradient)
        roots.clear()  # the first node's gradients are freed when it has run, like the others'
        for node in self._roots:
            if not self._dependencies[node]:
                self._queue(node)

    def _forget(self) -> None:
        self._buffers.clear()
        self._ready.clear()
        self._owned.clear()
        self._roots.clear()
        self._dependencies.clear()

    def _stop(self) -> None:
        """End the loop that runs on another thread: it finds no count at its next edge."""
        self._dependencies.clear()
        self._ready.clear()

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _queue(self, node: Any, only: Any = None) -> Any:
        """A node is ready; ``only`` was the only one until now (or None), and is returned if it still is."""
        if node.accumulates_into is None:
            heapq.heappush(self._ready, (-node.sequence_nr, node))
        else:
            self._leaf_is_ready(node)
        if only is None or not self._ready:
            return only
        heapq.heappush(self._ready, (-only.sequence_nr, only))
        return None

    def _leaf_is_ready(self, node: AccumulateGrad) -> None:
        """All gradients of a leaf have arrived: it is its turn at once, but on the thread of its device."""
        if node.run_device is self._device:
            self._arrive_at_leaf(node, self._buffers.pop(node, [None]))
        else:
            heapq.heappush(self._ready, (-node.sequence_nr, next(_ties), node))

    def _run_part(self) -> None:
        """Run what is ready until the next node is another device's, on the thread of its device."""
        node = self._ready[0][-1]
        self._device = device = node.run_device
        is_here = device.type in _HERE
        if node.accumulates_into is None:
            if is_here:
                self._loop(device)
            else:
                run_on_device(device, functools.partial(self._loop, device), self._stop)
            return
        heapq.heappop(self._ready)
        gradients = self._buffers.pop(node, [None])
        if is_here:
            self._arrive_at_leaf(node, gradients)
        else:
            work = functools.partial(self._arrive_at_leaf, node, gradients)
            del gradients
            run_on_device(device, work, self._stop)

    def _loop(self, device: Device) -> None:
        """Run what is ready on a device. One long function: two calls a node would cost 0.2 us of 3."""
        ready, buffers, owned, by_node = self._ready, self._buffers, self._owned, self._by_node
        dependencies, needed, values, keep = self._dependencies, self._needed, self.values, self.keep_graph
        on_a_path = self._on_a_path
        run, push, pop = values.run, heapq.heappush, heapq.heappop
        node = following = None
        try:
            while ready or following is not None:
                node, following = following if following is not None else pop(ready)[-1], None
                if node.run_device is not device:
                    push(ready, (-node.sequence_nr, next(_ties), node))
                    return
                gradients = buffers.pop(node, None) or [None] * node.num_outputs
                hooks = node.node_hooks
                if hooks is not None or (by_node and node in by_node):
                    self._arrive(node, gradients)
                if needed is not None and node not in on_a_path:
                    continue
                results: Sequence[Gradient]
                if hooks is None and not events.observers:
                    results = run(node, gradients, keep)
                else:
                    results = self._run_watched(node, gradients)
                record = node.record
                fresh, entire = record.fresh and (hooks is None or not hooks.post), not record.scatters
                for (successor, number), gradient in zip(node.next_edges, results):
                    if successor is None or (needed is not None and successor not in needed):
                        continue
                    if gradient is not None:
                        buffer = buffers.get(successor)
                        if buffer is None and successor.num_outputs == 1 and entire:
                            buffers[successor] = [gradient]
                            if fresh:
                                owned.add(successor)
                        elif successor in owned and buffer is not None and entire:
                            values.add_into(buffer, number, gradient)
                        else:
                            self._deposit(successor, number, gradient)
                    dependencies[successor] = count = dependencies[successor] - 1
                    if count == 0:
                        if following is None and not ready and successor.accumulates_into is None:
                            following = successor  # the only one that is ready: past the queue
                        else:
                            following = self._queue(successor, following)
        except Exception as error:
            self._note(error, node)
            raise

    def _run_watched(self, node: Any, gradients: list[Gradient]) -> Sequence[Gradient]:
        """Run a node that has hooks, or that observers look at."""
        hooks, values, arrived = node.node_hooks, self.values, gradients
        if hooks is not None and hooks.pre:
            gradients = call_pre_hooks(values, node, gradients)
        # A node fails with its hooks: until they are done it keeps what it saved.
        post = hooks is not None and bool(hooks.post)
        sent = gradients
        if node.record.boxed:
            sent = [BoxedGradients(gradients)]
            if not post:
                arrived.clear()
                gradients.clear()
        with events.span("node", node.name(), node):
            results: Sequence[Gradient] = run_node(
                functools.partial(values.run, keep=self.keep_graph or post), node, sent
            )
        if post:
            pairs = zip(results, self.wanted_of(node), strict=False)  # what goes nowhere is not shown either
            shown = [result if wanted else None for result, wanted in pairs]
            results = call_post_hooks(values, node, whole(shown), gradients)
            if node.saved_variables and not self.keep_graph:
                node.release()
        return results

    def _deposit(self, node: Any, number: int, gradient: Gradient) -> None:
        """Put a gradient into a node's buffer, beside or on top of what is there."""
        buffer = self._buffers.setdefault(node, [None] * node.num_outputs)
        if type(gradient) is Placed:
            key = node if node.num_outputs == 1 else (node, number)
            buffer[number] = self.values.placed(buffer[number], key in self._owned, gradient)
            self._owned.add(key)
        elif buffer[number] is None:
            buffer[number] = gradient
        else:
            buffer[number] = self.values.add(buffer[number], gradient)
            if node.num_outputs == 1:
                self._owned.add(node)

    def _note(self, error: Exception, node: Any) -> None:
        """Say in an error at which node it happened; its type and message stay."""
        if not self._noted and node is not None:
            self._noted = True
            error.add_note(f"This happened in backward, at {node.name()}.")

    # -- at a node ----------------------------------------------------------------------------------------------------

    def _arrive(self, node: Any, gradients: list[Gradient]) -> None:
        """Hooks, retained gradients and captures, in this order."""
        for number in range(node.num_outputs):
            hooks, retained = _watching(node, number)
            for hook in hooks:
                gradients[number] = call_tensor_hook(self.values, hook, gradients[number], node)
            if retained is not None and gradients[number] is not None:
                self._accumulate(retained._metadata(), gradients[number], owned=False)
        if not self.accumulate:  # else they are in `grad`, and nobody asks for them here: whoever drops one frees it
            for number in self._by_node.get(node, ()):
                self.captured[node, number] = gradients[number]

    def _arrive_at_leaf(self, node: AccumulateGrad, gradients: list[Gradient]) -> None:
        try:
            leaf, hooks = node.accumulates_into, node.node_hooks
            meta = leaf._metadata()
            captured = node in self._by_node
            if meta.hooks:
                self._arrive(node, gradients)
            elif captured and not self.accumulate:
                self.captured[node, 0] = gradients[0]
            if not self.accumulate or (self.restricted and not captured):
                return  # not asked for: the leaf of a root, or it is captured
            owned = node in self._owned and hooks is None and not meta.hooks and not captured
            if hooks is not None:
                gradients = call_pre_hooks(self.values, node, gradients)
            if gradients[0] is not None and leaf._requires_grad:
                self._accumulate(meta, gradients[0], owned)
            if meta.post_hooks:
                call_post_accumulate_hooks(self.values, leaf, meta)
            if hooks is not None:
                call_post_hooks(self.values, node, (), gradients)
        except Exception as error:
            self._note(error, node)
            raise

    def _accumulate(self, meta: Metadata, gradient: Gradient, owned: bool) -> None:
        with _accumulation:
            if meta.grad is None:
                meta.grad = self.values.kept(gradient, owned)
            else:
                meta.grad = self.values.accumulated(meta.grad, gradient)


def _watching(node: Any, number: int) -> tuple[list[Callable[[Any], Any]], Any]:
    """The tensor hooks of one output, and the tensor that retains its gradient or None."""
    if node.accumulates_into is not None:
        meta = node.accumulates_into._meta
        return list(meta.hooks.values()) if meta is not None and meta.hooks else [], None
    if node.node_hooks is None:
        return [], None
    reference = node.node_hooks.retained.get(number)
    return list(node.node_hooks.tensor.get(number, {}).values()), reference() if reference is not None else None


def current_task() -> GraphTask | None:
    """The innermost pass that runs in this context, or None."""
    return _running.get()


def run_in_task(task: GraphTask | None, function: Callable[..., T], *args: Any) -> T:
    """Call a function, in a context of its own, as part of a pass that runs in another one."""
    _running.set(task)
    return function(*args)


def current_graph_task_id() -> int:
    """The id of the innermost pass that runs here; -1 outside of one."""
    task = current_task()
    return -1 if task is None else task.id


def current_graph_task_execution_order() -> list[Any]:
    """The nodes of the pass that runs here, in the order in which it runs them.

    Raises:
        RuntimeError: outside of a pass.
    """
    task = current_task()
    if task is None:
        raise RuntimeError("current_graph_task_execution_order can only be called during a backward pass")
    return task.order()


def queue_callback(callback: Callable[[], object]) -> None:
    """Call ``callback()`` at the end of the pass that runs here, when all gradients have been accumulated.

    A callback may queue more. If the pass fails, callbacks are not called.

    Raises:
        RuntimeError: outside of a pass.
    """
    task = current_task()
    if task is None:
        raise RuntimeError("queue_callback: final callbacks can only be installed during a backward pass")
    task.callbacks.append(callback)


def _after_fork() -> None:
    """Another thread of the parent may have held the lock."""
    global _accumulation
    _accumulation = threading.Lock()
