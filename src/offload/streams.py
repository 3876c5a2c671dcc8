"""Streams: copies between a device and the host that go on while the program does something else.

NOTE [ Copies under way ]
1. A copy begins when what the program has issued for the device so far is done, and the program may ask, or wait, for
   its event. Copies of one stream are made in order.
2. Whoever starts a copy keeps its source and its target until the event has come, or gives the target to a program that
   waits for the event before it uses it (`before_use`).
3. The stand-in accelerator's stream is a thread. What a copy will fill is overwritten when it is issued, so that a read
   which comes too early shows, as one after a free does.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..memory import Device
from ..saved_tensors.layout import Array
from ..saved_tensors.payload import copy_into
from .worker import Worker

_POISON = 0xA5


class Event(Protocol):
    """The end of a copy."""

    def done(self) -> bool:
        """Whether the copy has been made; False for one that failed."""

    def wait(self) -> bool:
        """Wait until it has been made, or has failed; whether it has been made."""

    @property
    def error(self) -> BaseException | None:
        """What it failed with, or None."""

    def when_it_ends(self, callback: Callable[[], object]) -> None:
        """Have a function called when it ends, from any thread, where the device can tell."""


class CopyStream(Protocol):
    """Makes copies of one direction for one device (NOTE [ Copies under way ])."""

    def copy(self, out: Array, array: Array) -> Event:
        """Start to copy an array into another of the same shape and dtype."""

    def before_use(self, event: Event) -> bool:
        """Have what the program issues next come after a copy; whether that copy is good."""


class SimEvent:
    """The end of a copy that a thread makes."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._ended = threading.Event()
        self._callback: Callable[[], object] | None = None
        self.error: BaseException | None = None

    def end(self, error: BaseException | None) -> None:
        """Note that it has ended."""
        self.error = error
        self._ended.set()
        self._call_back()

    def when_it_ends(self, callback: Callable[[], object]) -> None:
        self._callback = callback
        if self._ended.is_set():
            self._call_back()

    def _call_back(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def done(self) -> bool:
        return self._ended.is_set() and self.error is None

    def wait(self) -> bool:
        self._worker.wait_until(self._ended.is_set)
        return self.done()


class SimStream:
    """A stream of the stand-in accelerator: a thread."""

    def __init__(self, name: str) -> None:
        self._worker = Worker(name)

    def copy(self, out: Array, array: Array) -> SimEvent:
        if out.flags.c_contiguous:
            out.reshape(-1).view(np.uint8).fill(_POISON)
        event = SimEvent(self._worker)
        held = [out, array]

        def job() -> None:
            failure: BaseException | None = None
            try:
                make_copy(*held)
            except BaseException as error:  # noqa: BLE001  # whoever needs the copy sees it
                failure = error.with_traceback(None)  # which would hold the arrays
            held.clear()
            event.end(failure)

        self._worker.submit(job)
        return event

    def before_use(self, event: Event) -> bool:
        return event.wait()


def make_copy(out: Array, array: Array) -> None:
    """What the stand-in accelerator's thread does for a copy."""
    copy_into(out, array)


class CudaEvent:
    """The end of a copy that a CUDA stream makes."""

    error: BaseException | None = None

    def __init__(self, event: Any) -> None:
        self.event = event

    def done(self) -> bool:
        return bool(self.event.done)

    def wait(self) -> bool:
        self.event.synchronize()
        return True

    def when_it_ends(self, callback: Callable[[], object]) -> None:
        """CUDA doesn't tell: the stage asks when it is next used."""


class CudaStream:
    """A CUDA stream beside the one that the program uses, which is looked up at each copy."""

    def __init__(self, device: Device) -> None:
        import cupy

        self._cupy = cupy
        self._index = device.index
        with cupy.cuda.Device(self._index):
            self._stream = cupy.cuda.Stream(non_blocking=True)

    def copy(self, out: Array, array: Array) -> CudaEvent:
        cupy = self._cupy
        with cupy.cuda.Device(self._index):
            if isinstance(out, np.ndarray):
                array = cupy.ascontiguousarray(array)  # on the program's stream, before the copy
            self._stream.wait_event(cupy.cuda.get_current_stream().record())
            if isinstance(out, np.ndarray):
                array.get(stream=self._stream, out=out, blocking=False)
            else:
                out.set(array, stream=self._stream)
            return CudaEvent(self._stream.record())

    def before_use(self, event: Any) -> bool:
        with self._cupy.cuda.Device(self._index):
            self._cupy.cuda.get_current_stream().wait_event(event.event)
        return True


@functools.cache
def stream_of(device: Device, direction: str) -> CopyStream:
    """The stream of a device for copies ``"out"`` of it or ``"in"``."""
    return CudaStream(device) if device.type == "cuda" else SimStream(f"{device}-{direction}")
