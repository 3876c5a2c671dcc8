"""What travels through a policy: `Payload`, and the `Stage` that maps one to another.

NOTE [ Stages ]
1. A stage sees arrays, never tensors, so that the saved-tensor hooks of another framework can use it too.
2. ``pack`` returns a payload with buffers of its own, or None to leave the payload to the next stage. It reads its
   input and never writes it. If it raises, what it has stored so far dies with the exception.
3. ``unpack`` fills arrays that the caller leased: the last stage to be undone writes straight into the value's memory.
   A stage that has the arrays in memory already, and no use for them, gives them away instead: ``hand_over``.
4. Buffers that stay in memory are leased from the pool of the device where they are, category ``saved_packed``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..memory import CPU, Device, pool
from .layout import Array
from .lines import Line

# The version of what a `Stage` may rely on and has to do; it rises with every change that a stage would notice.
INTERFACE_VERSION = 1
PACKED = "saved_packed"
SCRATCH = "temporary"
# Pieces in which a codec or a file takes an array that doesn't lie in one run.
RUN_BYTES = 1 << 20
_GATHER_BYTES = 128 << 10
_BYTE = np.dtype(np.uint8)


class Site(NamedTuple):
    """Who saves a value: its op, which of the op's saved values it is, and where the op is called.

    Attributes:
        op, slot: the name of the op, and of the value among those that it saves.
        module: the path of the module that is being called; empty where there is none.
        line: of the user's program, if it is known: equal for equal lines.
    """

    op: str = ""
    slot: str = ""
    module: str = ""
    line: Line | None = None


class Spec(NamedTuple):
    """What a buffer was before a stage took it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    device: Device

    def lease(self, category: str = SCRATCH) -> Array:
        """An uninitialised array like it."""
        return pool(self.device).lease(self.shape, self.dtype, category)[0]


class Undo(NamedTuple):
    """What it takes to undo one stage: the stage, the buffers that it was given, and its own notes."""

    stage: Stage
    specs: tuple[Spec, ...]
    place: Device | None
    note: Any


@dataclass(frozen=True, slots=True)
class Payload:
    """A value in the form that the stages so far have given it.

    Attributes:
        buffers: what is kept: arrays, or things that own bytes elsewhere; each has ``nbytes``.
        shape, dtype, strides: of the value's elements in memory (NOTE [ Layouts ]).
        device: where the value was, and comes back to.
        place: the device of the buffers, or None if they aren't arrays.
        undo: how to get the value back, the last stage last.
    """

    buffers: tuple[Any, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    strides: tuple[int, ...]
    device: Device
    place: Device | None
    undo: tuple[Undo, ...] = ()

    @classmethod
    def of(cls, array: Array, device: Device) -> Payload:
        """The payload that nothing was done to yet."""
        return cls((array,), array.shape, array.dtype, array.strides, device, device)

    @property
    def nbytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.nbytes for buffer in self.buffers)

    @property
    def exact(self) -> bool:
        """Whether the value comes back bit for bit."""
        return not any(done.stage.lossy for done in self.undo)

    @property
    def label(self) -> str:
        """The names of the stages that were applied, as in ``"zstd | disk"``."""
        return " | ".join(done.stage.name for done in self.undo)

    def then(self, stage: Stage, buffers: tuple[Any, ...], place: Device | None, note: Any = None) -> Payload:
        """The payload after ``stage`` has put these arrays into other buffers."""
        assert self.place is not None
        specs = tuple(Spec(buffer.shape, buffer.dtype, self.place) for buffer in self.buffers)
        undo = (*self.undo, Undo(stage, specs, self.place, note))
        return replace(self, buffers=buffers, place=place, undo=undo)


class Stage:
    """One step of a policy (NOTE [ Stages ]).

    Attributes:
        name: a word for reports.
        lossy: whether values change; `describe` states the bound then.
        interface: the version of the interface that it is written for.
    """

    name: str = "stage"
    lossy: bool = False
    interface: int = INTERFACE_VERSION

    def describe(self) -> str:
        """The stage in a few words, with what it does to values if that is anything."""
        return self.name

    def serves(self, device: Device) -> bool:
        """Whether it could do anything for a value on that device: a cheap question, asked first."""
        return True

    def pack(self, payload: Payload, site: Site) -> Payload | None:
        """The payload in another form (``payload.then(...)``), or None to leave it as it is."""
        raise NotImplementedError

    def saved_again(self, payload: Payload) -> None:
        """Told that one more op has saved what a payload holds, which is kept once: it's read for that op as well."""

    def settle(self, payload: Payload) -> None:
        """Finish what ``pack`` has left under way, because the next stage is about to read its buffers."""

    def synchronize(self) -> None:
        """Wait for all that is under way.

        Raises:
            OSError, RuntimeError: if something of it failed.
        """

    def without_effect(self) -> Iterator[str]:
        """A sentence for each option of it that has had no effect so far."""
        return iter(())

    def unpack(self, payload: Payload, outs: Sequence[Array]) -> None:
        """Fill ``outs``, contiguous arrays like the buffers that ``pack`` was given, from ``payload``'s buffers."""
        raise NotImplementedError

    def hand_over(self, payload: Payload) -> tuple[Array, ...] | None:
        """What ``unpack`` would fill, where it lies in leased memory already: the caller's from now on."""
        return None


def restore(payload: Payload, out: Array) -> None:
    """Undo all stages, the last one first; the value's elements are written into ``out``, which is contiguous."""
    while payload.undo:
        done = payload.undo[-1]
        last = len(payload.undo) == 1
        outs = None if last else done.stage.hand_over(payload)
        if outs is None:
            outs = (out,) if last else tuple(spec.lease() for spec in done.specs)
            done.stage.unpack(payload, outs)
        payload = replace(payload, buffers=outs, place=done.place, undo=payload.undo[:-1])


def handed_over(payload: Payload) -> Array | None:
    """The value's elements, if one stage is all that was done and it gives them away."""
    if len(payload.undo) != 1:
        return None
    found = payload.undo[0].stage.hand_over(payload)
    return None if found is None else found[0]


# -- arrays of any device, in any order --------------------------------------------------------------------------------


def to_host(array: Array) -> np.ndarray[Any, Any]:
    """The array itself if it lies in host memory (the stand-in accelerator's does), else a leased copy."""
    if isinstance(array, np.ndarray):
        return array
    copy = Spec(array.shape, array.dtype, CPU).lease()
    copy_into(copy, array)
    return copy  # type: ignore[no-any-return]


def host_place(place: Device) -> Device:
    """Where a codec that works in host memory leaves its result: on the same device if that is host memory."""
    return place if place.type in ("cpu", "sim") else CPU


def copy_into(out: Array, array: Array) -> None:
    """Copy between arrays of the same shape and dtype on any two devices."""
    if isinstance(out, np.ndarray):
        if isinstance(array, np.ndarray):
            np.copyto(out, array)
        else:
            array.get(out=out)
    elif isinstance(array, np.ndarray):
        out.set(np.ascontiguousarray(array))
    else:
        out[...] = array


@contextmanager
def host_outs(outs: Sequence[Array]) -> Iterator[list[np.ndarray[Any, Any]]]:
    """Arrays in host memory to be filled for ``outs``: themselves, or leased ones that are copied at the end."""
    with ExitStack() as copies:
        targets = []
        for out in outs:
            if isinstance(out, np.ndarray):
                targets.append(out)
            else:
                target = Spec(out.shape, out.dtype, CPU).lease()
                copies.callback(copy_into, out, target)
                targets.append(target)
        yield targets


def as_bytes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of a contiguous array, as a flat view."""
    return array.reshape(-1).view(np.uint8)


def byte_runs(array: np.ndarray[Any, Any], run_bytes: int = RUN_BYTES) -> Iterator[np.ndarray[Any, Any]]:
    """The elements of an array in C order as flat runs of ``run_bytes`` bytes, the last one shorter.

    Runs of a contiguous array are views; others go through one buffer of that size, which the next run overwrites.
    """
    if array.flags.c_contiguous:
        flat = as_bytes(array)
        for start in range(0, flat.size, run_bytes):
            yield flat[start : start + run_bytes]
        return
    run, _ = pool(CPU).lease((run_bytes,), _BYTE, SCRATCH)
    filled = 0
    with pool(CPU).charge(_GATHER_BYTES):
        for part in _parts(array):
            taken = 0
            while taken < part.size:
                more = min(part.size - taken, run_bytes - filled)
                run[filled : filled + more] = part[taken : taken + more]
                taken += more
                filled += more
                if filled == run_bytes:
                    yield run
                    filled = 0
    if filled:
        yield run[:filled]


def _parts(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """The bytes of an array in C order, in parts as NumPy's iterator finds them handy."""
    parts = np.nditer(  # type: ignore[call-overload]  # NumPy's stubs don't know "contig"
        array,
        ["external_loop", "buffered"],
        [["readonly", "contig"]],
        order="C",
        buffersize=_GATHER_BYTES // array.itemsize,
    )
    for part in parts:
        yield part.view(np.uint8)
