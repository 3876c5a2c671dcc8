"""The saved-tensor ledger: who kept what for backward, at which size, and what packing and unpacking cost."""

from __future__ import annotations

from typing import Any

from .model import Saved, SavedRow
from .sites import RawSite, resolve

# Parameters and buffers live anyway: keeping a reference to one for backward costs nothing.
_LIVE_ANYWAY = ("parameter", "buffer")
_MOST_PENDING = 65536


class _Row:
    """Sums over the values that one op in one module saved under one slot and policy."""

    __slots__ = (
        "count",
        "dtype",
        "offloaded",
        "pack_ns",
        "raw",
        "resident",
        "shape",
        "shared",
        "shared_with",
        "site",
        "unpack_ns",
        "unpacks",
    )

    def __init__(self) -> None:
        self.site: RawSite | None = None
        self.shape: tuple[int, ...] | None = None
        self.dtype = ""
        self.shared = 0
        self.shared_with: _Row | None = None
        self.count = self.raw = self.resident = self.offloaded = 0
        self.pack_ns = self.unpack_ns = self.unpacks = 0

    def add(self, record: Any, resident: int, shared: int) -> None:
        """Count a value; ``shared`` bytes of it are counted elsewhere."""
        self.count += 1
        self.raw += record.raw_bytes
        self.resident += resident
        self.offloaded += record.offloaded_bytes
        self.shared += shared
        self.pack_ns += round(record.seconds * 1e9)


class StepLedger:
    """What one step saves for backward.

    Args:
        step: the step's number.
        by_row: whether to keep rows, or only the totals.
    """

    def __init__(self, step: int, by_row: bool) -> None:
        self.step = step
        self.total = _Row()
        self.pending_raw = 0  # since the last backward ended
        self.pending_resident = 0
        self.boundary: tuple[dict[Any, int], int, int] | None = None
        self._by_row = by_row
        self._rows: dict[tuple[str, str, str, str], _Row] = {}
        self._first: dict[int, _Row] = {}  # the row that counts a storage, by its id
        self._row_of: dict[int, tuple[Any, _Row]] = {}  # packed records by id, kept alive so that ids stay theirs

    def saved(self, record: Any, module: str, block: Any, site: RawSite | None) -> None:
        """Count a saved value; ``block`` is the live block that held it, or None, ``site`` the user's line."""
        resident = record.resident_bytes
        is_free = record.policy == "keep" or resident == record.offloaded_bytes == 0
        if is_free and block is not None and block.category in _LIVE_ANYWAY:
            return
        shared = record.raw_bytes if record.is_shared else 0
        if record.policy == "keep" and block is not None:
            resident = block.share(self.step, resident)
            shared = record.resident_bytes - resident
        self.total.add(record, resident, shared)
        if self._by_row:
            row = self._row_for(record, module, site)
            row.add(record, resident, shared)
            first = self._first.setdefault(record.storage_id, row)
            if shared and first is not row:
                row.shared_with = first
        self.pending_raw += record.raw_bytes
        self.pending_resident += resident

    def _row_for(self, record: Any, module: str, site: RawSite | None) -> _Row:
        key = (module, record.op, record.slot, record.policy)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = _Row()
            row.site, row.shape, row.dtype = site, record.shape, record.dtype
        elif row.shape != record.shape or row.dtype != record.dtype:
            row.shape, row.dtype = None, ""
        if record.policy != "keep":
            self._row_of[id(record)] = (record, row)
            if len(self._row_of) > _MOST_PENDING:
                del self._row_of[next(iter(self._row_of))]
        return row

    def unpacked(self, record: Any, nanoseconds: int) -> None:
        """Count that a packed value was read."""
        self.total.unpacks += 1
        self.total.unpack_ns += nanoseconds
        known = self._row_of.get(id(record))
        if known is not None:
            known[1].unpacks += 1
            known[1].unpack_ns += nanoseconds

    def backward_begins(self, used: dict[Any, int]) -> None:
        """Remember the boundary, if it is the highest of this step."""
        if self.boundary is None or sum(used.values()) > sum(self.boundary[0].values()):
            self.boundary = (used, self.pending_raw, self.pending_resident)

    def backward_ends(self) -> None:
        """What is saved from now on is for the next backward."""
        self.pending_raw = self.pending_resident = 0

    def close(self) -> None:
        """The step is over: forget which record belongs to which row."""
        self._row_of = {}
        self._first = {}

    def nbytes(self) -> int:
        """A rough size of the ledger itself."""
        return 500 * len(self._rows) + 500 * len(self._row_of) + 100 * len(self._first)

    def report(self) -> Saved:
        """The ledger as data, the largest rows first."""
        ordered = sorted(self._rows.items(), key=lambda item: (-item[1].raw, item[0]))
        numbers = {id(row): number for number, (_, row) in enumerate(ordered)}
        rows = tuple(
            SavedRow(
                *key,
                r.count,
                r.raw,
                r.resident,
                r.offloaded,
                r.pack_ns,
                r.unpack_ns,
                r.unpacks,
                shared_bytes=r.shared,
                shared_with=None if r.shared_with is None else numbers[id(r.shared_with)],
                shape=r.shape,
                dtype=r.dtype,
                site=resolve(r.site),
            )
            for key, r in ordered
        )
        t = self.total
        return Saved(self.step, t.count, t.raw, t.resident, t.offloaded, t.pack_ns, t.unpack_ns, rows)
