"""`MemoryPool`: every byte of a device, counted, reused and held under a limit.

NOTE [ Counting without a lock ]
1. A storage may die anywhere: inside a lease on the same thread (the cyclic collector), or where Ctrl-C arrives. So its
   callback is the C function ``deque.append``: it takes no lock, and nothing can interrupt it or get lost in it. What
   has died is counted before the pool says or decides anything; a count that is not a new highest can wait.
2. What changes the counters does so without a call and without a jump back between the first change and the last: the
   interpreter neither switches threads nor runs a signal handler there.
3. What must not interleave (look at the limit, then take more) runs under a re-entrant lock. A block of the cache is
   taken and comes back without it, for that changes no total: it counts as cached until it counts as held, and from the
   moment on where it no longer does.
4. ``used`` counts bytes asked for, by category; ``held`` is what that really takes: with the rounding of blocks to
   size classes, without memory that belongs to the user. The limit is about ``held`` + ``cached``.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from math import prod
from typing import Any

import numpy as np

from . import events
from .backing import Backing
from .cache import BlockCache, SizeClass
from .device import Device
from .errors import MemoryBudgetError
from .peak import PeakScope
from .storage import CATEGORIES, PooledStorage, Storage, UserStorage

# id(owner) -> Storage, for every pool: what keeps the weak references, and so their callbacks, alive.
live_storages: dict[int, Storage] = {}
_KNOWN_CATEGORIES = frozenset(CATEGORIES)
_SLACK_BYTES = 64 << 20
_LARGEST_SHOWN = 5
# Results below this many bytes are allocated by NumPy and adopted: half of a lease's cost.
SMALL_BYTES = 2048
# So many small results may have died before they are counted: a batch at a time is cheaper than one after another.
_MOST_DEAD = 64


class MemoryPool:
    """The memory of one device.

    Args:
        device: the device.
        backing: where its blocks come from.
        limit: the most bytes that the pool may take, or None.

    The names follow CuPy's pools: `used_bytes`, `free_bytes`, `total_bytes`, `set_limit`, `free_all_blocks`.
    """

    def __init__(self, device: Device, backing: Backing, limit: int | None = None) -> None:
        self.device = device
        self.evictors: list[Callable[[int], object]] = []
        self.peak_scopes: list[PeakScope] = []
        self.collections = 0
        self._allocate = backing.allocate
        self._array = backing.array
        self._owner = backing.owner
        self._retire = backing.retire
        self._limit = limit
        self._lock = threading.RLock()
        self._cache = BlockCache()
        self._classes = self._cache.classes
        self._dead: deque[Storage] = deque()
        self._bury = self._dead.append
        self._used = 0
        self._rounding = 0  # held - used
        self._held_peak = 0
        self._segment_peak = 0
        self._whole_life = PeakScope(self).open()

    # -- taking and giving back ----------------------------------------------------------------------------------------

    def lease(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], category: str = "activation", nbytes: int | None = None
    ) -> tuple[Any, Storage]:
        """An uninitialised array in C order on a block of this pool, and its storage.

        The block comes back when the array and all its views are dead. ``nbytes`` is how many bytes are counted, by
        default those of the array.

        Raises:
            MemoryBudgetError: if it does not fit under the limit, also after all that can be freed was freed.
            ValueError: for a category that does not exist.
        """
        if category not in _KNOWN_CATEGORIES:
            raise _unknown(category)
        if nbytes is None:
            nbytes = prod(shape) * dtype.itemsize
        if self._dead:
            self._count_dead()
        cache, found = self._cache, self._classes[nbytes]
        held, blocks = found.held, found.blocks
        while not blocks:  # another thread may take what was fetched
            self._fetch(nbytes, found)
        try:
            block = blocks.pop()
            array = self._array(shape, dtype, block)
            owner = array if self._owner is None else self._owner(array)
            key = id(owner)
            storage = PooledStorage(owner, self._bury)
        except BaseException:  # the block is lost
            cache.nbytes -= held
            raise
        # No call from here to the last counter (note, rule 2).
        storage.block = block
        storage.rounding = held - nbytes
        storage.pool = self
        storage.key = key
        storage.nbytes = nbytes
        storage.category = category
        storage.version = 0
        live_storages[key] = storage
        cache.nbytes -= held
        cache.uses = found.last_use = cache.uses + 1
        self._used += nbytes
        self._rounding += held - nbytes
        if self._used > self._segment_peak:
            self._segment_peak = self._used
        if self._used + self._rounding > self._held_peak:
            self._held_peak = self._used + self._rounding
        if events.observers:
            for observer in events.observers:
                observer.allocated(storage)
        return array, storage

    def lease_or_adopt(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], category: str = "activation"
    ) -> tuple[Any, Storage]:
        """`lease`, but a small array is allocated by NumPy and adopted; for the host, while nobody observes.

        Raises:
            MemoryBudgetError: if it does not fit under the limit, also after all that can be freed was freed.
        """
        nbytes = prod(shape) * dtype.itemsize
        if nbytes >= SMALL_BYTES:
            return self.lease(shape, dtype, category, nbytes)
        array = np.empty(shape, dtype)
        return array, self.adopt_small(array, category)

    def adopt(self, array: Any, category: str) -> Storage:
        """Count an array that NumPy allocated for us: for small results, where this saves half of a lease's cost.

        Raises:
            MemoryBudgetError: if it does not fit under the limit.
            ValueError: for a category that does not exist.
        """
        if category not in _KNOWN_CATEGORIES:
            raise _unknown(category)
        if self._dead:
            self._count_dead()
        storage = self.adopt_small(array, category)
        if events.observers:
            for observer in events.observers:
                observer.allocated(storage)
        return storage

    def adopt_small(self, array: Any, category: str, fits: bool = False) -> Storage:
        """`adopt` for what is done for every small result: unchecked, and while nobody observes.

        ``fits`` says that room was made for it, and that the lock is held.

        Raises:
            MemoryBudgetError: if it does not fit under the limit.
        """
        nbytes = array.nbytes
        if len(self._dead) > _MOST_DEAD:
            self._count_dead()
        key = id(array)
        storage = Storage(array, self._bury)
        if self._limit is not None and not fits:
            return self._adopt_within_limit(array, category)
        # No call from here to the last counter (note, rule 2).
        storage.pool = self
        storage.key = key
        storage.nbytes = nbytes
        storage.category = category
        storage.version = 0
        live_storages[key] = storage
        self._used += nbytes
        if self._used > self._segment_peak:
            self._raise_peak()
        return storage

    def _adopt_within_limit(self, array: Any, category: str) -> Storage:
        nbytes = array.nbytes
        with self._lock:
            self._make_room(nbytes, nbytes)
            self._held_peak = max(self._held_peak, self.held_bytes() + nbytes)
            return self.adopt_small(array, category, fits=True)

    def _raise_peak(self) -> None:
        """Note the count where it is the highest so far, without what has died and was not counted yet."""
        self._count_dead()
        if self._used > self._segment_peak:
            self._segment_peak = self._used
            if self._used + self._rounding > self._held_peak:
                self._held_peak = self._used + self._rounding

    def adopt_user(self, owner: Any, nbytes: int, category: str = "input") -> Storage:
        """Count memory that belongs to the user: category input, outside the limit."""
        if category not in _KNOWN_CATEGORIES:
            raise _unknown(category)
        self._count_dead()
        key = id(owner)
        storage = UserStorage(owner, self._bury)
        # No call from here to the last counter (note, rule 2).
        storage.rounding = -nbytes
        storage.pool = self
        storage.key = key
        storage.nbytes = nbytes
        storage.category = category
        storage.version = 0
        live_storages[key] = storage
        self._used += nbytes
        self._rounding -= nbytes
        if self._used > self._segment_peak:
            self._segment_peak = self._used
        for observer in events.observers:
            observer.allocated(storage)
        return storage

    def _count_dead(self) -> None:
        """Stop counting what has died since the last call, and keep its blocks for reuse (note, rules 1 to 3)."""
        dead, cache = self._dead, self._cache
        while True:
            # Not in the `while`: after its test comes a jump back, where another thread may take the last one.
            if not dead:
                break
            storage = dead[0]
            try:
                nbytes, key = storage.nbytes, storage.key
            except AttributeError:  # Ctrl-C arrived before it was counted
                del dead[0]
                continue
            self._used -= nbytes
            if key in live_storages and live_storages[key] is storage:  # or it has gone to one at the same address
                del live_storages[key]
            if storage.adopted:
                del dead[0]
            else:
                self._rounding -= storage.rounding
                block = storage.block
                if block is None:
                    del dead[0]
                else:
                    held = nbytes + storage.rounding
                    storage.block = None  # whoever knows the storage still must not keep the memory
                    found = self._classes.by_size[held]
                    cache.uses = found.last_use = cache.uses + 1
                    cache.nbytes += held
                    del dead[0]
                    if self._retire is not None:
                        try:
                            self._retire(block)
                        except BaseException:  # the block is lost
                            cache.nbytes -= held
                            raise
                    found.blocks.append(block)
            if events.observers:
                for observer in events.observers:
                    observer.freed(storage)
        if self._used + self._rounding + cache.nbytes > self._held_peak + _SLACK_BYTES:
            self._trim(0)

    def charge(self, nbytes: int, category: str = "temporary") -> AbstractContextManager[None]:
        """Count memory that a library allocates for itself while a block of code runs.

        Raises:
            MemoryBudgetError: if it does not fit under the limit.
        """
        return _Charging(self, nbytes, category)

    def relabel(self, storage: Storage, category: str) -> None:
        """Move a storage's bytes to another category.

        Raises:
            ValueError: for a category that does not exist.
        """
        old = storage.category
        if category == old:
            return
        if category not in _KNOWN_CATEGORIES:
            raise _unknown(category)
        storage.category = category
        for observer in events.observers:
            observer.relabelled(storage, old)

    # -- blocks --------------------------------------------------------------------------------------------------------

    def _fetch(self, nbytes: int, found: SizeClass) -> None:
        """Put a fresh block into the cache, for a lease of ``nbytes``."""
        held = found.held
        with self._lock:
            self._make_room(nbytes, held)
            self._trim(held)
            block = self._fresh(held)
            # No call from here to the last one (note, rule 2).
            self._cache.nbytes += held
            found.blocks.append(block)

    def _fresh(self, held: int) -> Any:
        try:
            return self._allocate(held)
        except MemoryError:
            self._cache.clear()
            gc.collect()
            self._count_dead()
            self._cache.clear()
            return self._allocate(held)

    def _trim(self, coming: int) -> None:
        """Drop cached blocks, those unused for longest first, that would lift the total above its highest need."""
        self._cache.drop(self._used + self._rounding + self._cache.nbytes + coming - self._held_peak - _SLACK_BYTES)

    def _make_room(self, nbytes: int, held: int) -> None:
        """The ladder: drop cached blocks, ask the evictors, collect garbage, give up; under the lock."""
        if self._limit is None:
            return
        room = self._limit - held
        excess = self._excess(room)
        for evict in self.evictors:
            if excess <= 0:
                return
            evict(excess)
            excess = self._excess(room)
        if excess > 0:
            self.collections += 1
            gc.collect()
            if self._excess(room) > 0:
                raise self._budget_error(nbytes, held)

    def _excess(self, room: int) -> int:
        """How many bytes more than ``room`` are taken, once cached blocks were dropped for that."""
        self._count_dead()
        cache = self._cache
        cache.drop(self._used + self._rounding + cache.nbytes - room)
        return self._used + self._rounding + cache.nbytes - room

    def _budget_error(self, nbytes: int, held: int) -> MemoryBudgetError:
        largest = sorted(((s.nbytes, s.category) for s in self.live()), reverse=True)[:_LARGEST_SHOWN]
        needed = max(self._held_peak, self.held_bytes() + held)
        limit = self._limit or 0
        return MemoryBudgetError(str(self.device), nbytes, limit, self.bytes_by_category(), largest, needed)

    # -- figures -------------------------------------------------------------------------------------------------------

    def used_bytes(self) -> int:
        """Bytes of all live storages, as asked for."""
        self._count_dead()
        return self._used

    def bytes_by_category(self) -> dict[str, int]:
        """`used_bytes` by category."""
        found = dict.fromkeys(CATEGORIES, 0)
        for storage in self.live():
            found[storage.category] += storage.nbytes
        return found

    def held_bytes(self) -> int:
        """Bytes that the live storages take: whole blocks, without memory that belongs to the user."""
        self._count_dead()
        return self._used + self._rounding

    def free_bytes(self) -> int:
        """Bytes in blocks that are cached for reuse."""
        self._count_dead()
        return self._cache.nbytes

    def total_bytes(self) -> int:
        """Bytes that the pool has taken: `held_bytes` and `free_bytes`."""
        return self.held_bytes() + self.free_bytes()

    def live(self) -> list[Storage]:
        """All live storages of this pool."""
        self._count_dead()
        return [storage for storage in list(live_storages.values()) if storage.pool is self]

    # -- peaks ---------------------------------------------------------------------------------------------------------

    def fold_peak(self) -> None:
        """Fold the highest count since the last call into all open scopes (NOTE [ Peaks ])."""
        self._count_dead()
        peak, self._segment_peak = self._segment_peak, self._used
        for scope in self.peak_scopes:
            scope.raise_to(peak)

    def peak_scope(self) -> PeakScope:
        """A context manager that measures the highest `used_bytes` while it is open; scopes may nest and overlap."""
        return PeakScope(self)

    def peak_bytes(self) -> int:
        """The highest `used_bytes` since the pool began or `reset_peak` was called."""
        return self._whole_life.peak_bytes

    def reset_peak(self) -> None:
        """Start `peak_bytes` anew; open scopes are not touched."""
        self._whole_life.close()
        self._whole_life = PeakScope(self).open()

    # -- limit ---------------------------------------------------------------------------------------------------------

    def get_limit(self) -> int | None:
        """The most bytes that the pool may take, or None."""
        return self._limit

    def set_limit(self, limit: int | None) -> None:
        """Set the most bytes that the pool may take; what is in use already stays.

        Raises:
            MemoryBudgetError: if more is in use now; the limit stays as it was.
        """
        with self._lock:
            before, self._limit = self._limit, limit
            try:
                self._make_room(0, 0)
            except MemoryBudgetError:
                self._limit = before
                raise

    def free_all_blocks(self) -> None:
        """Give all cached blocks back to the system."""
        self._count_dead()
        self._cache.clear()

    def forget_lock(self) -> None:
        """Make the lock anew: another thread may have held it when this process was forked."""
        self._lock = threading.RLock()


def _unknown(category: str) -> ValueError:
    return ValueError(f"unknown category {category!r}; expected one of {', '.join(CATEGORIES)}")


class _Charge:
    """Stands for memory that a library allocates for itself."""

    __slots__ = ("__weakref__", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class _Charging(AbstractContextManager[None]):
    """A `_Charge` while a block of code runs. A class: as a generator it costs 1 us more, of 5."""

    __slots__ = ("_charge", "_given")

    def __init__(self, pool: MemoryPool, nbytes: int, category: str) -> None:
        self._given = pool, nbytes, category
        self._charge: _Charge | None = None

    def __enter__(self) -> None:
        pool, nbytes, category = self._given
        charge = _Charge(nbytes)
        pool.adopt(charge, category)
        self._charge = charge

    def __exit__(self, *error: object) -> None:
        self._charge = None
