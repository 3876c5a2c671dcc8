"""What is packed of one storage, shared by all who save a part of it.

NOTE [ Sharing ]
1. A *unit* is what one pipeline of stages holds of one storage at one version. It is found by
   ``(storage id, version, stages)``, plus the dtype if a stage is lossy: an integer view of rounded floats would not
   be exact.
2. A unit's *pieces* are what was packed, each for a layout. A save whose layout lies in a piece makes a handle on that
   piece. Units and pieces are held weakly; only handles keep pieces, and only pieces keep their unit. So packed data
   die, by reference count, with the last SavedVariable.
3. A *frame* is memory leased at load for an extent of the storage. Views that are loaded while a frame lives lie in it,
   so two views of one storage share their memory as they did before, with the strides that they had. Pieces with gaps
   that interleave (the thirds of a joint projection) get one frame together. A frame is held weakly, and not used
   again once somebody has written to it.
4. A frame starts at a multiple of 64 bytes of the storage: kernels see the alignment that they saw before.
5. Memory that a stage gives away with a piece in it becomes the frame: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Hashable
from time import perf_counter
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from ..memory import Device, Storage, pool, storage_of
from .layout import Array, Layout, address_of, address_of_owner, view_at
from .payload import SCRATCH, Payload, Spec, copy_into, handed_over, restore
from .statistics import Stored

_ALIGNMENT = 64
# How many pieces of one unit are looked at for one that a value lies in.
_LOOK_BACK = 64
_BYTES = np.dtype(np.uint8)


class Piece:
    """Packed elements of a storage (NOTE [ Sharing ])."""

    __slots__ = ("__weakref__", "layout", "payload", "stored", "unit")

    def __init__(self, unit: Unit, layout: Layout, payload: Payload, stored: Stored) -> None:
        self.unit = unit
        self.layout = layout
        self.payload = payload
        self.stored = stored

    def load(self, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """The view of the storage that starts ``offset`` bytes into it, made again."""
        owner, frame = self.unit.frame_for(self) or self._given_frame() or self.unit.new_frame(self)
        if self.layout not in frame.filled:
            self._fill(owner, frame)
        return view_at(owner, offset - frame.lo, shape, strides, dtype)

    def _given_frame(self) -> tuple[Any, Frame] | None:
        """A frame in memory that the stage gives away, with this piece in it (note, rule 5)."""
        layout = self.layout
        if not layout.dense or layout.lo % _ALIGNMENT:
            return None
        array = handed_over(self.payload)
        if array is None:
            return None
        storage = storage_of(array)
        assert storage is not None
        owner = storage()
        assert owner is not None
        frame = Frame(storage, layout.lo - (address_of(array) - address_of_owner(owner)), layout.hi, self.payload.exact)
        frame.filled.add(layout)
        self.unit.frames.append(frame)
        return owner, frame

    def _fill(self, owner: Any, frame: Frame) -> None:
        layout, payload = self.layout, self.payload
        target = view_at(owner, layout.lo - frame.lo, payload.shape, payload.strides, payload.dtype)
        if layout.dense:
            restore(payload, target)
        else:
            elements = Spec(payload.shape, payload.dtype, payload.device).lease()
            restore(payload, elements)
            copy_into(target, elements)
        frame.filled.add(layout)


class Frame:
    """Memory for the bytes ``[lo, hi)`` of a storage, and which pieces are in it: all exact ones, or all lossy ones."""

    __slots__ = ("exact", "filled", "hi", "lo", "storage", "version")

    def __init__(self, storage: Storage, lo: int, hi: int, exact: bool) -> None:
        self.exact = exact
        self.storage = storage
        self.version = storage.version
        self.lo = lo
        self.hi = hi
        self.filled: set[Layout] = set()


class Unit:
    """What one pipeline holds of one storage at one version (NOTE [ Sharing ])."""

    __slots__ = ("__weakref__", "device", "frames", "pieces")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.pieces: WeakValueDictionary[Layout, Piece] = WeakValueDictionary()
        self.frames: list[Frame] = []

    def find(self, layout: Layout) -> Piece | None:
        """A piece that has all bytes of ``layout``, or None."""
        found = self.pieces.get(layout)
        if found is not None:
            return found
        for piece in reversed(self._alive()):
            if piece.layout.covers(layout):
                return piece
        return None

    def _alive(self) -> list[Piece]:
        """The pieces packed last; the list of references is taken in one step, whatever other threads add."""
        found = (reference() for reference in self.pieces.valuerefs()[-_LOOK_BACK:])
        return [piece for piece in found if piece is not None]

    def add(self, piece: Piece) -> None:
        """Let others find a piece while it lives."""
        self.pieces[piece.layout] = piece

    def frame_for(self, piece: Piece) -> tuple[Any, Frame] | None:
        """A frame that has room for a piece, and the memory that it refers to; None if none is alive."""
        layout, exact = piece.layout, piece.payload.exact
        alive = []
        found = None
        for frame in self.frames:
            owner = frame.storage()
            if owner is not None:
                alive.append(frame)
                room = frame.lo <= layout.lo and layout.hi <= frame.hi and frame.exact is exact
                if room and frame.version == frame.storage.version:
                    found = owner, frame
        self.frames = alive
        return found

    def new_frame(self, piece: Piece) -> tuple[Any, Frame]:
        """One for a piece, with room for those that it interleaves with (note, rule 3).

        Raises:
            MemoryBudgetError: if the pool has none.
        """
        layout, exact = piece.layout, piece.payload.exact
        lo, hi = layout.lo, layout.hi
        if not layout.dense:
            for other in sorted(neighbour.layout for neighbour in self._alive()):
                if not other.dense and other.overlaps(layout._replace(lo=lo, hi=hi)):
                    lo, hi = min(lo, other.lo), max(hi, other.hi)
        lo -= lo % _ALIGNMENT
        array, storage = pool(self.device).lease((hi - lo,), _BYTES, SCRATCH)
        frame = Frame(storage, lo, hi, exact)
        self.frames.append(frame)
        owner = storage()
        assert owner is not None
        del array
        return owner, frame


_units: WeakValueDictionary[Hashable, Unit] = WeakValueDictionary()


def unit_for(key: Hashable, device: Device) -> Unit:
    """The unit of that key, a new one if none is alive."""
    unit = _units.get(key)
    if unit is None:
        unit = _units[key] = Unit(device)
    return unit


class PackedHandle:
    """A view of a packed piece: what a SavedVariable keeps.

    Attributes:
        resident_bytes: bytes kept for it on the value's device; 0 if it shares what another handle keeps.
        offloaded_bytes: bytes kept for it elsewhere; 0 if it shares.
        policy: the names of the stages that were applied.
        shared: whether it shares.
    """

    __slots__ = (
        "_dtype",
        "_offset",
        "_piece",
        "_shape",
        "_strides",
        "offloaded_bytes",
        "policy",
        "resident_bytes",
        "shared",
    )

    def __init__(self, piece: Piece, array: Array, origin: int, shared: bool) -> None:
        self._piece = piece
        self._offset = address_of(array) - origin
        self._shape = array.shape
        self._strides = array.strides
        self._dtype = array.dtype
        self.policy = piece.payload.label
        self.shared = shared
        self.resident_bytes = 0 if shared else piece.stored.resident_bytes
        self.offloaded_bytes = 0 if shared else piece.stored.offloaded_bytes

    @property
    def shares(self) -> Hashable:
        """Equal for handles on the same packed data."""
        return id(self._piece)

    def load(self) -> Array:
        """The value on its device, with the shape, strides and dtype that it had.

        Raises:
            OSError: if it was on disk and can't be read.
            MemoryBudgetError: if the pool has no room for it.
        """
        start = perf_counter()
        array = self._piece.load(self._offset, self._shape, self._strides, self._dtype)
        self._piece.stored.loaded(perf_counter() - start)
        return array
