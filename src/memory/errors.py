"""The error of a memory limit that cannot be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .sizes import format_size


class MemoryBudgetError(MemoryError):
    """A lease would pass the pool's limit, and nothing more could be freed.

    Attributes:
        device: the name of the device.
        requested: bytes that the lease would have taken.
        limit: the limit in bytes.
        used_by_category: bytes in use, by category.
        largest: ``(nbytes, category)`` of the largest storages in use, largest first.
        smallest_working_limit: the smallest limit in bytes that would have done for everything so far, this lease
            included.
    """

    def __init__(
        self,
        device: str,
        requested: int,
        limit: int,
        used_by_category: Mapping[str, int],
        largest: Sequence[tuple[int, str]],
        smallest_working_limit: int,
    ) -> None:
        self.device = device
        self.requested = requested
        self.limit = limit
        self.used_by_category = dict(used_by_category)
        self.largest = tuple(largest)
        self.smallest_working_limit = smallest_working_limit
        super().__init__(self._message())

    def _message(self) -> str:
        used = ", ".join(f"{name} {format_size(size)}" for name, size in self.used_by_category.items() if size)
        largest = ", ".join(f"{format_size(size)} {category}" for size, category in self.largest)
        return (
            f"the memory limit of {self.device} does not hold this step: {self.requested:,} bytes were asked for\n"
            f"  limit: {self.limit:,} bytes ({format_size(self.limit)})\n"
            f"  in use: {used or 'nothing'}\n"
            f"  largest: {largest or 'none'}\n"
            f"Raise it to at least {self.smallest_working_limit:,} bytes"
            f" (stowgrad.memory.set_limit({self.smallest_working_limit}, device={self.device!r})), or save less:"
            " checkpoint, save_on_disk or a smaller batch."
        )

    def __reduce__(self) -> tuple[type[MemoryBudgetError], tuple[object, ...]]:
        fields = (self.device, self.requested, self.limit, self.used_by_category, self.largest)
        return type(self), (*fields, self.smallest_working_limit)
