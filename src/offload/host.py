"""`save_on_cpu`: keep what is saved for backward in host memory while the device works on.

NOTE [ Copies to the host ]
1. Copies out and copies in have a stream each (NOTE [ Copies under way ]). A copy out keeps its source until it has
   been made, so at most ``window`` bytes are under way: then the oldest is waited for.
2. A value that is needed while its copy is under way is taken from its source: nothing waits, and the copy is dropped.
3. A copy that fails leaves the value on the device. The next save raises the error; backward finds the value.
4. The program may write into the source while the copy is under way. The copy is good if the storage has the version
   that it had; if it hasn't, reading raises what it would raise without the policy. A copy that was seen to be made
   before the write is good whatever happens to the source.
5. Values are needed in the order opposite to that of saving: reading one starts copies in of those saved before it.
   What was copied back early becomes the value's memory: nothing is copied again.
6. What is under way takes memory of the device only while there is enough: when something else doesn't fit under the
   device's limit, what was copied back early is dropped and copies out are waited for, before anything is refused.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from ..memory import CPU, Device, MemoryBudgetError, Storage, parse_size, pool, storage_of
from ..saved_tensors import Payload, Policy, Site, Stage
from ..saved_tensors.layout import Array
from ..saved_tensors.payload import PACKED, Spec, copy_into
from .order import ReadingOrder
from .pinned import PinnedMemory
from .streams import Event, stream_of


class CopyOut:
    """Buffers of one value on their way to the host (note, rules 1 to 4).

    Attributes:
        places: see `ReadingOrder`.
        nbytes: of the buffers.
    """

    __slots__ = ("__weakref__", "_events", "_lock", "_sources", "ahead", "device", "nbytes", "places", "targets")

    def __init__(self, device: Device, buffers: Sequence[Array], targets: Sequence[Array]) -> None:
        self.places: tuple[int, ...] = ()
        self.device = device
        self.nbytes = sum(buffer.nbytes for buffer in buffers)
        self.targets = [weakref.ref(target) for target in targets]
        self.ahead: CopyIn | None = None
        self._lock = threading.Lock()
        self._sources: list[tuple[Array, Storage | None, int]] | None = []
        self._events: list[Event] = []
        stream = stream_of(device, "out")
        for buffer, target in zip(buffers, targets):
            storage = storage_of(buffer)
            self._sources.append((buffer, storage, -1 if storage is None else storage.version))
            self._events.append(stream.copy(target, buffer))
        me = weakref.ref(self)
        for event in list(self._events):
            event.when_it_ends(lambda: (copy := me()) is not None and copy.poll())

    def poll(self) -> bool:
        """Whether it has ended; lets go of its source if it is good."""
        with self._lock:
            if self._sources is None:
                return True
            if not all(event.done() for event in self._events):
                return any(event.error is not None for event in self._events)
            if not self._is_stale():
                self._sources, self._events = None, []
            return True

    def wait(self) -> None:
        """Wait until it has ended, well or not."""
        for event in list(self._events):
            event.wait()
        self.poll()

    @property
    def error(self) -> BaseException | None:
        """What it failed with, or None."""
        return next((event.error for event in self._events if event.error is not None), None)

    def take_back(self, outs: Sequence[Array]) -> bool:
        """Fill arrays from the sources, which are there until the copy is good; False if they aren't.

        Raises:
            RuntimeError: if the program has written into them since.
        """
        self.poll()
        with self._lock:
            sources = self._sources
        if sources is None:
            return False
        if self._is_stale():
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation while"
                " it was being copied to the host; change a copy (clone()), or call synchronize() of the policy before"
            )
        for out, (source, _, _) in zip(outs, sources):
            copy_into(out, source)
        return True

    def _is_stale(self) -> bool:
        return any(storage is not None and storage.version != version for _, storage, version in self._sources or ())


class CopyIn:
    """Buffers of one value on their way back, in memory of the device."""

    __slots__ = ("__weakref__", "_events", "_held", "buffers", "nbytes")

    def __init__(self, device: Device, targets: Sequence[Array]) -> None:
        self.buffers = [Spec(target.shape, target.dtype, device).lease() for target in targets]
        self.nbytes = sum(buffer.nbytes for buffer in self.buffers)
        self._held = list(targets)
        stream = stream_of(device, "in")
        self._events = [stream.copy(buffer, target) for buffer, target in zip(self.buffers, targets)]

    def poll(self) -> bool:
        """Whether it has ended, so that nothing has to be kept for it any more."""
        return all(event.done() or event.error is not None for event in self._events)

    def wait(self) -> None:
        """Wait until it has ended, well or not."""
        for event in self._events:
            event.wait()

    def take(self, device: Device) -> list[Array] | None:
        """The buffers, to be used from now on, and no longer kept here; None if it failed."""
        stream = stream_of(device, "in")
        good = True
        for event in self._events:
            good = stream.before_use(event) and good  # each is waited for
        buffers, self.buffers = self.buffers, []
        return buffers if good else None


class HostStage(Stage):
    """Copies a device's buffers to host memory; leaves alone what is there already.

    Args:
        pinned: where page-locked memory comes from, or None for plain memory.
        window: the most bytes under way to the host, and as many that are copied back before they are needed; 0: each
            copy is waited for.
        pinned_for: the type of device that page-locked memory is meant for.
        limited: whether the user has set a limit for page-locked memory.
    """

    name = "cpu"

    def __init__(self, pinned: PinnedMemory | None, window: int, pinned_for: str, limited: bool = False) -> None:
        self.window = window
        self._limited = limited
        self.pinned = pinned
        self._pinned_for = pinned_for
        self._was_pinned = False
        self._lock = threading.RLock()
        self._under_way: deque[CopyOut] = deque()
        self._coming: list[CopyIn] = []
        self._order: ReadingOrder[CopyOut] = ReadingOrder()
        self._failure: BaseException | None = None

    def serves(self, device: Device) -> bool:
        return device is not CPU

    # -- out -----------------------------------------------------------------------------------------------------------

    def pack(self, payload: Payload, site: Site) -> Payload | None:
        device = payload.place
        if device is None or device is CPU:
            return None
        if not self.window:
            targets = [self._lease(buffer, device) for buffer in payload.buffers]
            for target, buffer in zip(targets, payload.buffers):
                copy_into(target, buffer)
            return payload.then(self, tuple(targets), CPU)
        self._make_room(payload.nbytes)
        self._raise_failure()
        targets = [self._lease(buffer, device) for buffer in payload.buffers]
        with self._lock:
            _have_asked_for_memory(device, self)
            copy = CopyOut(device, payload.buffers, targets)
            self._order.add(copy)
            self._under_way.append(copy)
        return payload.then(self, tuple(targets), CPU, copy)

    def _lease(self, buffer: Array, device: Device) -> Any:
        if self.pinned is not None and device.type == self._pinned_for:
            self._was_pinned = True
            return self.pinned.lease(buffer.shape, buffer.dtype, device)
        return Spec(buffer.shape, buffer.dtype, CPU).lease(PACKED)

    def _make_room(self, coming: int) -> None:
        """Let go of the copies that have ended, and wait for the oldest while too many bytes are under way."""
        with self._lock:
            self._coming = [copy for copy in self._coming if not copy.poll()]
            while self._under_way:
                oldest = self._under_way[0]
                if not oldest.poll():
                    if sum(copy.nbytes for copy in self._under_way) + coming <= self.window:
                        return
                    oldest.wait()
                self._note_failure(oldest)
                self._under_way.popleft()

    def _note_failure(self, copy: CopyOut) -> None:
        if self._failure is None:
            self._failure = copy.error

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise RuntimeError(
                f"save_on_cpu: an earlier copy to the host failed; its value is still on the device: {failure}"
            ) from failure

    def settle(self, payload: Payload) -> None:
        copy = payload.undo[-1].note
        if copy is not None:
            copy.wait()
            if copy.error is not None:
                raise RuntimeError(f"save_on_cpu: the copy to the host failed: {copy.error}") from copy.error

    def give_up_memory(self) -> None:
        """Let go of memory of devices (note, rule 6). Not for users: a pool asks for it."""
        if not self._lock.acquire(blocking=False):
            return  # whoever has it may be waiting for the pool that asks
        try:
            for copy in self._order.alive():
                copy.ahead = None
                copy.wait()
            for coming in self._coming:
                coming.wait()
            self._coming.clear()
        finally:
            self._lock.release()

    def synchronize(self) -> None:
        with self._lock:
            while self._under_way:
                copy = self._under_way.popleft()
                copy.wait()
                self._note_failure(copy)
            for coming in self._coming:
                coming.wait()
            self._coming.clear()
        self._raise_failure()

    # -- in ------------------------------------------------------------------------------------------------------------

    def unpack(self, payload: Payload, outs: Sequence[Array]) -> None:
        copy: CopyOut | None = payload.undo[-1].note
        if copy is None:
            for out, buffer in zip(outs, payload.buffers):
                copy_into(out, buffer)
            return
        self._make_room(0)
        last = copy.targets[0]() is payload.buffers[0]  # otherwise a stage after this one has given the buffers back
        if not (last and copy.take_back(outs)):
            for out, buffer in zip(outs, (self._take_ahead(copy) if last else None) or payload.buffers):
                copy_into(out, buffer)
        self._fetch_ahead(copy)

    def hand_over(self, payload: Payload) -> tuple[Array, ...] | None:
        copy: CopyOut | None = payload.undo[-1].note
        if copy is None or copy.targets[0]() is not payload.buffers[0]:
            return None
        self._make_room(0)
        buffers = self._take_ahead(copy)
        if buffers is None:
            return None
        self._fetch_ahead(copy)
        return tuple(buffers)

    def _take_ahead(self, copy: CopyOut) -> list[Array] | None:
        """What was copied back early, if anything."""
        ahead, copy.ahead = copy.ahead, None
        return None if ahead is None else ahead.take(copy.device)

    def saved_again(self, payload: Payload) -> None:
        copy: CopyOut | None = payload.undo[-1].note
        if copy is not None:
            with self._lock:
                self._order.add_again(copy)

    def _fetch_ahead(self, read: CopyOut) -> None:
        """Start to copy back the values that were saved before a value, the last one first (note, rule 5)."""
        with self._lock:
            self._order.follow(read)
            for copy in self._order.passed():
                copy.ahead = None
            ahead = [copy.ahead for copy in self._order.alive() if copy.ahead is not None]
            room = self.window - sum(copy.nbytes for copy in ahead)
            for copy in self._order.coming():
                if copy.ahead is not None or not copy.poll() or copy.error is not None:
                    continue
                targets = [reference() for reference in copy.targets]
                if any(target is None for target in targets):
                    continue
                room -= copy.nbytes
                if room < 0 or not _has_room(copy.device, copy.nbytes):
                    return
                try:
                    copy.ahead = CopyIn(copy.device, targets)
                except MemoryBudgetError:
                    return
                self._coming.append(copy.ahead)

    def without_effect(self) -> Iterator[str]:
        if self.pinned is not None and not self._was_pinned:
            yield f"cpu, pin_memory=True: no value was on a device of type {self._pinned_for}"
        if self.pinned is not None and self.pinned.plain_bytes:
            plain = f"{self.pinned.plain_bytes:,} bytes, which were beyond the limit of pinned memory"
            yield f"cpu, pin_memory=True: for {plain}"
        if self.pinned is None and self._limited:
            yield "cpu, pinned_limit: without pin_memory=True no memory is page-locked"


_stages: weakref.WeakSet[HostStage] = weakref.WeakSet()


def _have_asked_for_memory(device: Device, stage: HostStage) -> None:
    """Have a device's pool ask a stage before it refuses something."""
    _stages.add(stage)
    if _give_up_memory not in pool(device).evictors:
        pool(device).evictors.append(_give_up_memory)


def _give_up_memory(nbytes: int) -> None:
    for stage in list(_stages):
        stage.give_up_memory()


def _has_room(device: Device, nbytes: int) -> bool:
    of = pool(device)
    limit = of.get_limit()
    return limit is None or of.held_bytes() + nbytes <= limit


class save_on_cpu(Policy):  # noqa: N801  # PyTorch's name
    """Move what is saved for backward to host memory, and back when it is read.

    Args:
        pin_memory: use page-locked host memory, which a CUDA device copies to and from while it computes.
        device_type: the accelerator that it is meant for.
        min_bytes: smaller values are left alone.
        pinned_limit: the most page-locked memory, 4 GiB by default; what is beyond it gets plain memory.
        window: the most bytes that are being copied to the host at a time, and as many that are copied back before they
            are needed; 0: each copy is waited for.
        parameters: also move what lies in parameters and buffers.

    Raises:
        RuntimeError: for a device type that doesn't exist.

    A value that is on the CPU already is kept as it is, and its version is checked when it is read. Each value comes
    back to the device that it was on. A copy that fails is raised by the next op that saves (or by `synchronize`); the
    value that it was for is still on the device, and backward finds it there.
    """

    def __init__(
        self,
        pin_memory: bool = False,
        device_type: str = "cuda",
        *,
        min_bytes: int | str = 0,
        pinned_limit: int | str | None = None,
        window: int | str = "256 MiB",
        parameters: bool = False,
    ) -> None:
        Device(device_type)
        self.pin_memory = pin_memory
        self.device_type = device_type
        most = parse_size("4 GiB" if pinned_limit is None else pinned_limit)
        pinned = PinnedMemory(most) if pin_memory else None
        stage = HostStage(pinned, parse_size(window) if window else 0, device_type, pinned_limit is not None)
        super().__init__(stage, min_bytes=min_bytes, parameters=parameters)
