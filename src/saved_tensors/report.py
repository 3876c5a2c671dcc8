"""What `Policy.report` gives: the figures of each call site, and what had no effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..memory import format_size
from .lines import text_of
from .payload import Site
from .statistics import SiteFigures

_MOST_ROWS = 40
_COLUMNS = ("op", "saves", "module", "line", "did", "values", "before", "after", "packing", "unpacking")


@dataclass(frozen=True, slots=True)
class SiteReport:
    """What a policy did with the values of one call site; sizes in bytes, times in seconds.

    Attributes:
        op, slot: the op that saves, and which of its saved values it is.
        module: the module that was being called, as a path below the outermost one; empty where there was none.
        line: the line of the user's program, as ``"file.py:12"``, where it is known.
        did: how many values were packed in which way, such as ``{"zstd | disk": 3}``.
        kept: how many were left as they were, by reason.
        shared: how many were found in data packed before.
        raw_bytes, packed_bytes: the size of all values but the shared ones, and what was stored for those packed.
        loads: how often a value was unpacked.
        pack_seconds, unpack_seconds: what that took.
    """

    op: str
    slot: str
    module: str
    line: str
    did: Mapping[str, int]
    kept: Mapping[str, int]
    shared: int
    raw_bytes: int
    packed_bytes: int
    loads: int
    pack_seconds: float
    unpack_seconds: float

    @classmethod
    def of(cls, site: Site, figures: SiteFigures) -> SiteReport:
        """The figures of a site as they are now."""
        return cls(
            site.op, site.slot, site.module, text_of(site.line), dict(figures.did), dict(figures.kept), figures.shared,
            figures.raw_bytes, figures.packed_bytes, figures.loads, figures.seconds, figures.unpack_seconds,
        )  # fmt: skip

    @property
    def outcome(self) -> str:
        """All that was done, in a few words."""
        done = [*self.did, *(["shared"] if self.shared else []), *(f"kept: {reason}" for reason in self.kept)]
        return ", ".join(done)

    @property
    def values(self) -> int:
        """How many values it saved."""
        return sum(self.did.values()) + sum(self.kept.values()) + self.shared

    def cells(self) -> tuple[str, ...]:
        """The row of a table."""
        packed = format_size(self.packed_bytes) if self.did else "-"
        times = [f"{1e3 * seconds:.2f} ms" for seconds in (self.pack_seconds, self.unpack_seconds)]
        sizes = (format_size(self.raw_bytes), packed)
        return (self.op, self.slot, self.module, self.line, self.outcome, str(self.values), *sizes, *times)


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """What a policy did at each call site; as a text, a table.

    Attributes:
        policy: its description.
        sites: the call sites, those with the most bytes first.
        without_effect: a sentence for each stage, condition and option that had no effect.
    """

    policy: str
    sites: tuple[SiteReport, ...]
    without_effect: tuple[str, ...]

    def __str__(self) -> str:
        rows = [_COLUMNS, *(site.cells() for site in self.sites[:_MOST_ROWS])]
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = [self.policy]
        lines += ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        if len(self.sites) > _MOST_ROWS:
            lines.append(f"  and {len(self.sites) - _MOST_ROWS} more")
        lines += [f"no effect: {text}" for text in self.without_effect]
        return "\n".join(lines)
