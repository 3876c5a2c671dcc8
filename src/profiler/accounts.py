"""`Book`: the running figures of a recording, one `Account` a device. Events come in order, from one thread at a time.

NOTE [ The live set at the peak ]
1. At a new maximum nothing is copied but the eleven totals by category. What happens afterwards goes into the account's
   journal: undone backwards from what is live now, it gives what was live then.
2. A new maximum empties the journal. One that outgrows the live set twice is replaced by the set itself, and nothing
   more is written until the next maximum. So memory is bounded by the live set, and an event costs the same however
   long the recording is.
3. A signal may raise between any two calls (Ctrl-C), and the report must still add up: what belongs together is
   changed without a call in between, and an event may be processed twice without harm.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Any, TypeAlias

from ..memory import CATEGORIES, Device
from .block import Block
from .holders import Names
from .leaks import StepLeaks
from .ledger import StepLedger
from .log import FREE, GRAPH, MODULE, NODE, PHASE, RELABEL, SAVE, Event, Logs
from .model import PHASES
from .sites import RawSite

_INDEX = {name: index for index, name in enumerate(CATEGORIES)}
_SHORTEST_JOURNAL = 4096
_MOST_RECORDS = 8192
_MOST_KEPT = 65536


class PhaseRecord:
    """The running figures of one phase of one step on one device."""

    __slots__ = (
        "active_ns",
        "begin_bytes",
        "begin_ns",
        "categories",
        "device",
        "end_ns",
        "peak_block",
        "peak_bytes",
        "peak_ns",
        "phase",
        "step",
    )

    def __init__(self, account: Account, step: int, phase: str, now: int) -> None:
        self.device = account.device
        self.step = step
        self.phase = phase
        self.begin_ns = self.end_ns = self.peak_ns = now
        self.active_ns = 0
        self.begin_bytes = self.peak_bytes = account.used
        self.categories = account.categories[:]
        self.peak_block: Block | None = None


# What undoes one event: an allocated block, a freed one in a tuple, or a relabelled one with its old category.
Undo: TypeAlias = Block | tuple[Block] | tuple[Block, str]


class Account:
    """The running figures of one device."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.used = 0
        self.begin_bytes = 0
        self.is_used = False  # whether anything was allocated here since the recording began
        self.categories = [0] * len(CATEGORIES)
        self.records: dict[str, PhaseRecord] = {}  # of the current step, by phase
        self.record: PhaseRecord = PhaseRecord(self, 0, "setup", 0)
        self.peak = 0
        self.peak_record = self.record
        self.peak_categories = self.categories[:]
        self.peak_block: Block | None = None
        self.peak_names: Names = {}
        self.journal: list[Undo] | None = []
        self.frozen: dict[int, tuple[Block, str]] = {}

    def importance(self) -> tuple[bool, bool, bool, int]:
        """Reports are about the accelerator with the highest peak of those in use, or else the host."""
        kind = self.device.type
        return self.is_used, kind not in ("cpu", "meta"), kind != "meta", self.peak

    def enter(self, step: int, phase: str, now: int) -> None:
        """Make a phase the one that what follows counts for."""
        record = self.records.get(phase)
        if record is None:
            record = self.records[phase] = PhaseRecord(self, step, phase, now)
        elif self.used > record.peak_bytes:
            record.categories = self.categories[:]
            record.peak_bytes = self.used
            record.peak_block = None
            record.peak_ns = now
        self.record = record

    def rises(self, block: Block) -> bool:
        """A block was added to the counts: whether that is a new maximum (note, rules 1 and 3).

        Of steps that are equally high the last one counts: the first one lacks what a step finds left over.
        """
        used = self.used
        record = self.record
        if used > record.peak_bytes:
            record.categories = self.categories[:]
            record.peak_bytes = used
            record.peak_block = block
            record.peak_ns = block.t_ns
            if used > self.peak or (used == self.peak and record.step != self.peak_record.step):
                self.peak_categories = record.categories
                self.peak = used
                self.peak_block = block
                self.peak_record = record
                self.journal = []
                return True
        if self.journal is not None:
            self.journal.append(block)
        return False

    def freeze_if_long(self, live: dict[int, Block]) -> None:
        """Replace a long journal by what it stands for (note, rule 2)."""
        if self.journal is not None and len(self.journal) > _SHORTEST_JOURNAL + 2 * len(live):
            self.frozen = self.at_peak(live)
            self.journal = None

    def at_peak(self, live: dict[int, Block]) -> dict[int, tuple[Block, str]]:
        """What was live at the peak, with its category then, by storage id."""
        if self.journal is None:
            return self.frozen
        found = {id_: (block, block.category) for id_, block in live.items() if block.device is self.device}
        for undo in reversed(self.journal):
            if type(undo) is Block:
                found.pop(undo.id, None)
            else:
                block, *category = undo  # type: ignore[misc]  # a tuple of one or two
                found[block.id] = (block, category[0] if category else block.category)
        return found


class Book:
    """All accounts, the phases, the steps and the ledgers.

    Args:
        by_row: whether the ledger keeps rows.
        logs: where events are logged, or None.
    """

    def __init__(self, by_row: bool, logs: Logs | None = None) -> None:
        self.accounts: dict[Device, Account] = {}
        self.live: dict[int, Block] = {}
        self.step = 0
        self.steps_done = 0
        self.phase = "setup"
        self.default = "setup"
        self.phases: list[str] = []
        self.done: list[PhaseRecord] = []
        self.dropped = 0
        self.ledger = StepLedger(0, by_row)
        self.ledgers: dict[int, StepLedger] = {}
        self.logs = logs
        self.names: Names = {}  # the user's variables, as far as they were looked at
        self.new_peaks: list[Account] = []  # of which the peak has moved since variables were looked at
        self.leaks = StepLeaks()
        self._kept: dict[int, list[Block]] = {}  # by the node that keeps them
        self._being_saved: list[Block] = []
        self.disk_bytes = self.disk_peak = 0  # what savers keep in files
        self._on_disk: dict[int, int] = {}  # by the node that keeps it
        self._disk_being_saved = 0
        self._by_row = by_row
        self._open_steps = 0
        self._since = 0

    # -- blocks --------------------------------------------------------------------------------------------------------

    def allocate(self, block: Block) -> None:
        """A block is live from now on."""
        account = self.accounts.get(block.device)
        if account is None:
            account = self.accounts[block.device] = Account(block.device)
            account.enter(self.step, self.phase, block.t_ns)
        known = self.live.get(block.id)
        if known is not None:
            if known is block and account.peak_block is not block:
                account.rises(block)  # a signal came between its count and this
            return
        block.step = self.step
        block.phase = self.phase
        index = _INDEX[block.category]
        # In one piece (note, rule 3):
        self.live[block.id] = block
        account.used += block.nbytes
        account.categories[index] += block.nbytes
        account.is_used = True
        if account.rises(block):
            account.peak_names = self.names
            if account not in self.new_peaks:
                self.new_peaks.append(account)
        self._log(block)
        if account.journal is not None and len(account.journal) > _SHORTEST_JOURNAL:
            account.freeze_if_long(self.live)

    def number_from(self, step: int) -> None:
        """Number the steps from there on; for a recording that has not begun."""
        self.step = self.ledger.step = step

    def begin_here(self, now: int) -> None:
        """What is live now was live before the recording."""
        self._since = now
        for account in self.accounts.values():
            account.record.begin_ns = now
            account.record.begin_bytes = account.begin_bytes = account.used
            account.is_used = False
        if self.logs is not None:
            self.logs.begin(self.step, self.live.values(), self.phase, now)

    def _log(self, event: Event) -> None:
        if self.logs is not None and self.logs.current is not None:
            self.logs.current.add(event)

    def free(self, id_: int, by: str = "") -> None:
        """A block is no longer live; one that is not known (it died while the recording began) is ignored.

        Args:
            id_: the storage's id.
            by: the op or node in which it died.
        """
        block = self.live.get(id_)
        if block is None:
            return
        account = self.accounts[block.device]
        if account.journal is not None:
            account.journal.append((block,))
        block.until = by
        index = _INDEX[block.category]
        self._log((FREE, block))
        del self.live[id_]
        account.used -= block.nbytes
        account.categories[index] -= block.nbytes
        if account.journal is not None and len(account.journal) > _SHORTEST_JOURNAL:
            account.freeze_if_long(self.live)

    def relabel(self, id_: int, category: str) -> None:
        """A block moves to another category."""
        block = self.live.get(id_)
        if block is None or block.category == category:
            return
        account = self.accounts[block.device]
        if account.journal is not None:
            account.journal.append((block, block.category))
        self._log((RELABEL, block, block.category, category))
        before, after = _INDEX[block.category], _INDEX[category]
        block.category = category
        account.categories[before] -= block.nbytes
        account.categories[after] += block.nbytes

    # -- phases and steps ----------------------------------------------------------------------------------------------

    def begin_phase(self, name: str, now: int) -> None:
        """A phase opened; unknown names count as "other"."""
        phase = name if name in PHASES else "other"
        if phase == "backward" and "backward" not in self.phases:
            self.ledger.backward_begins({device: account.used for device, account in self.accounts.items()})
        self.phases.append(phase)
        self._switch(now)

    def end_phase(self, name: str, now: int) -> None:
        """A phase closed; the end of an optimizer's phase ends the step, unless the program marks its steps itself."""
        phase = name if name in PHASES else "other"
        if phase not in self.phases:
            return
        del self.phases[len(self.phases) - 1 - self.phases[::-1].index(phase)]
        if phase == "backward" and "backward" not in self.phases:
            self.ledger.backward_ends()
            self.default = "other"  # gradients are live now: this is no forward until something is recorded again
        if phase == "forward" and not self.phases:
            self.default = "forward"  # up to backward, whatever follows belongs to it
        if phase == "optimizer" and not self._open_steps:
            self._next_step(now)
        self._switch(now)

    def begin_step(self, now: int) -> None:
        """The program marks the beginning of a step itself."""
        self._open_steps += 1
        self._switch(now)

    def end_step(self, now: int) -> None:
        """The program marks the end of a step itself."""
        if self._open_steps:
            self._open_steps -= 1
            if not self._open_steps:
                self._next_step(now)
                self._switch(now)

    def lean_to(self, default: str, now: int) -> None:
        """The phase outside all marked phases becomes ``default``."""
        self.default = default
        self._switch(now)

    def _switch(self, now: int) -> None:
        phase = self.phases[-1] if self.phases else self.default
        if phase == self.phase:
            return
        self.settle(now)
        self.phase = phase
        self._log((PHASE, phase, now))
        for account in self.accounts.values():
            account.enter(self.step, phase, now)

    def settle(self, now: int) -> None:
        """Count the time up to now for the current phase."""
        for account in self.accounts.values():
            record = account.record
            record.active_ns += now - max(self._since, record.begin_ns)
            record.end_ns = now
        self._since = now

    def _next_step(self, now: int) -> None:
        self.settle(now)
        for account in self.accounts.values():
            self.done.extend(account.records.values())
            account.records = {}
        self.ledger.close()
        self.ledgers[self.step] = self.ledger
        self._prune()
        self.leaks.look(self.live.values(), self.step, self.names)
        if self.logs is not None:
            self.logs.end({account.peak_record.step for account in self.accounts.values()})
        self._kept = {}
        self._on_disk = {}
        self.disk_bytes = 0
        self.step += 1
        self.steps_done += 1
        self.ledger = StepLedger(self.step, self._by_row)
        self.default = "setup"
        self.phase = self.phases[-1] if self.phases else self.default
        for account in self.accounts.values():
            account.enter(self.step, self.phase, now)
        if self.logs is not None:
            self.logs.begin(self.step, self.live.values(), self.phase, now)

    def _prune(self) -> None:
        """Keep the ledgers that a report may show, and of many phase records the highest and the latest."""
        shown = {account.peak_record.step for account in self.accounts.values()}
        shown.add(max(self.ledgers.values(), key=lambda ledger: ledger.total.raw).step)
        self.ledgers = {step: ledger for step, ledger in self.ledgers.items() if step in shown}
        if len(self.done) <= 2 * _MOST_RECORDS:
            return
        worst: dict[tuple[Device, str], PhaseRecord] = {}
        for record in self.done:
            key = (record.device, record.phase)
            if key not in worst or record.peak_bytes > worst[key].peak_bytes:
                worst[key] = record
        latest = self.done[-_MOST_RECORDS:]
        kept = set(map(id, latest))
        before = len(self.done)
        self.done = [record for record in worst.values() if id(record) not in kept] + latest
        self.dropped += before - len(self.done)

    def records(self) -> list[PhaseRecord]:
        """All phase records in the order in which they began."""
        current = chain.from_iterable(account.records.values() for account in self.accounts.values())
        return sorted([*self.done, *current], key=lambda record: (record.step, record.begin_ns))

    # -- saved values and names ----------------------------------------------------------------------------------------

    def saved(self, record: Any, module: str, site: RawSite | None) -> None:
        """A value was saved for backward."""
        block = self.live.get(record.storage_id)
        if block is not None and record.policy == "keep":
            if block.saved_by is None:
                block.saved_by = (record.op, record.slot)
            block.savers += 1
            self._being_saved.append(block)
        if record.offloaded_bytes and "disk" in record.policy:
            self.disk_bytes += record.offloaded_bytes
            self.disk_peak = max(self.disk_peak, self.disk_bytes)
            self._disk_being_saved += record.offloaded_bytes
        self._log((SAVE, block, record.policy, record.resident_bytes))
        if "recompute" not in self.phases:  # what recomputation saves was counted when it was dropped in forward
            self.ledger.saved(record, module, block, site)

    def recorded(self, number: int, inputs: tuple[int, ...]) -> None:
        """A node was added to the graph: what was saved since the last one is its."""
        if self._being_saved:
            self._kept[number] = self._being_saved
            self._being_saved = []
            if len(self._kept) > _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        if self._disk_being_saved:
            self._on_disk[number] = self._disk_being_saved
            self._disk_being_saved = 0
        self._log((GRAPH, number, inputs))

    def node_begins(self, number: int) -> None:
        """A node of the graph runs in backward."""
        self._log((NODE, number, True, False))

    def node_ends(self, number: int, released: bool, now: int) -> None:
        """A node has run, and let go of what it saved or not."""
        self._log((NODE, number, False, released))
        if released:
            for block in self._kept.pop(number, ()):
                block.savers -= 1
                block.released_ns = now
            self.disk_bytes -= self._on_disk.pop(number, 0)

    def module(self, path: str, begins: bool) -> None:
        """A module's forward begins or ends."""
        self._log((MODULE, path, begins))

    def know(self, names: Names) -> None:
        """The user's variables were looked at; what they hold now they held at a peak that was just reached."""
        self.names = names

    def name_peaks(self, names: Names, accounts: Iterable[Account]) -> None:
        """The user's variables were looked at right after these accounts had a new peak."""
        self.names = names
        for account in accounts:
            account.peak_names = names

    def name_the_rest(self, names: Names) -> None:
        """The user's variables were looked at at the end: what has no name yet of a peak in this step gets one."""
        for account in self.accounts.values():
            if account.peak_record.step == self.step:
                account.peak_names = {**names, **account.peak_names}

    def unpacked(self, record: Any, nanoseconds: int) -> None:
        """A saved value was read."""
        self.ledger.unpacked(record, nanoseconds)

    def name(self, id_: int, text: str, owner: str = "") -> None:
        """Call a live block by a name that its user knows, and by that of the model that has it."""
        block = self.live.get(id_)
        if block is not None:
            block.name, block.owner = text, owner

    def name_of(self, id_: int) -> str:
        """The name of a live block, or empty."""
        block = self.live.get(id_)
        return "" if block is None else block.name

    def category_bytes(self, category: str) -> int:
        """Bytes of one category on all devices."""
        return sum(account.categories[_INDEX[category]] for account in self.accounts.values())
