"""Hints: what would lower the peak, and to what. Each figure comes from replaying the step's events with the change.

Subtracting a block from the peak would say too much: as the peak sinks, another moment becomes the highest. So each
change is made in the log of the step with the peak, and the step is replayed. A log that does not replay to the peak
that was recorded (a signal came in between) gives no hints.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..memory import format_size
from .accounts import Account, Book
from .block import Block
from .holders import Name
from .log import FREE, SAVE, StepLog
from .model import Hint
from .replay import Change, Course, Inserted, highest, replay
from .sites import resolve
from .tables import starred

_LEAST_SHARE = 100  # a hint must save a hundredth of the peak
_MOST = 5
_MOST_VARIABLES = 4
_MOST_MODULES = 8
_FLOATS = ("float32", "float64")


class _Step:
    """The step with the peak: its log, and what its account says of the peak."""

    def __init__(self, log: StepLog, account: Account, live: dict[int, tuple[Block, str]]) -> None:
        self.log = log
        self.device = account.device
        self.course = Course(log)
        self.at_peak = live
        self.names = account.peak_names
        self.peak = account.peak
        self.phase = account.peak_record.phase
        # What waits to be written is a matter of time: another run has other figures.
        self.is_timed = any("disk" in policy for saved in self.course.saves.values() for _, policy, _ in saved)
        self.t_ns = 0 if account.peak_block is None else account.peak_block.t_ns


_Found = tuple[str, str, Change, bool]  # code, text with {peaks} where the figures go, change, whether it is exact


def find_hints(book: Book, account: Account) -> tuple[Hint, ...]:
    """The hints for a device, those that cost nothing first; none where the step's events were not kept."""
    log = None if book.logs is None else book.logs.of(account.peak_record.step)
    if log is None or account.peak_block is None:
        return ()
    before, _ = highest(replay(log, account.device))
    if before != account.peak:
        return ()
    step = _Step(log, account, account.at_peak(book.live))
    kept: list[tuple[Hint, Change]] = []
    for search in (_free_variables, _free_gradients, _step_in_backward, _checkpoint, _in_bfloat16):
        for code, text, change, is_exact in search(step):
            after, phase = highest(replay(log, account.device, change))
            if before - after <= before // _LEAST_SHARE:
                continue
            figures = f"peak {format_size(before)} -> {format_size(after)} ({phase})"
            if is_exact and step.is_timed:
                is_exact, figures = False, f"about {figures}"
            hint = Hint(code, text.replace("{peaks}", figures), before, after, phase, is_exact)
            kept.append((hint, change))
    kept.sort(key=lambda one: (not one[0].is_exact, one[0].peak_after_bytes))  # what costs nothing comes first
    kept = kept[:_MOST]
    hints = [hint for hint, _ in kept]
    return (*hints, *_together(log, account, kept))


def _together(log: StepLog, account: Account, kept: list[tuple[Hint, Change]]) -> Iterator[Hint]:
    """All hints that can be followed at once, if there are several."""
    change = Change()
    used: list[int] = []
    for number, (hint, own) in enumerate(kept):
        alone = hint.code in ("checkpoint", "bfloat16")
        if change.clashes(own) or (alone and any(kept[one][0].code in ("checkpoint", "bfloat16") for one in used)):
            continue
        change = change.with_(own)
        used.append(number)
    if len(used) < 2:
        return
    after, phase = highest(replay(log, account.device, change))
    if after >= min(hint.peak_after_bytes for hint, _ in kept):
        return
    numbers = " and ".join(str(number + 1) for number in sorted(used))
    text = f"hints {numbers} together: peak {format_size(account.peak)} -> {format_size(after)} ({phase})"
    yield Hint("all", text, account.peak, after, phase, all(kept[number][0].is_exact for number in used))


# -- variables ---------------------------------------------------------------------------------------------------------


def _free_variables(step: _Step) -> Iterator[_Found]:
    """Blocks that only variables hold at the peak: let go of them before backward."""
    groups: dict[tuple[str, ...], list[tuple[Block, Name]]] = {}
    for block, category in step.at_peak.values():
        names = step.names.get(block.id, [])
        if names and all(name.is_plain for name in names) and category in ("activation", "input", "temporary"):
            groups.setdefault(tuple(name.text for name in names), []).append((block, names[0]))
    largest = sorted(groups.items(), key=lambda item: -sum(block.nbytes for block, _ in item[1]))
    for texts, held in largest[:_MOST_VARIABLES]:
        change, stale = Change(), False
        for block, _ in held:
            if block.step < step.log.step or step.course.born.get(block.id) is None:
                stale |= _gone_at_start(step, block, change)
            else:
                _gone_before_backward(step, block, change)
                _twins_gone(step, block, change)
        if change:
            yield "free-variable", _about_variable(step, texts, held, stale), change, True


def _about_variable(step: _Step, texts: tuple[str, ...], held: list[tuple[Block, Name]], stale: bool) -> str:
    block, name = max(held, key=lambda one: one[0].nbytes)
    site = name.site()
    born = resolve(block.site)
    if born is not None and site is not None and born.file == site.file and born.name == site.name:
        site = born
    where = "" if site is None else f" ({site})"
    what = f"{name.root} ({format_size(sum(one.nbytes for one, _ in held))})"
    who = " and ".join(texts) + where
    roots = ", ".join(dict.fromkeys(text.split("'")[1] for text in texts))
    if stale and step.phase not in ("backward", "optimizer", "recompute"):
        return (
            f"{what} is left over from the step before: only the {who} holds it."
            f" del {roots} at the end of the step: {{peaks}}."
        )
    return (
        f"{what} is live at the peak but no backward needs it then: only the {who} holds it."
        f" del {roots} before backward(): {{peaks}}."
    )


def _remove_free(step: _Step, block: Block, change: Change) -> None:
    freed = step.course.freed.get(block.id)
    if freed is not None:
        change.removed.add(freed)


def _gone_before_backward(step: _Step, block: Block, change: Change) -> None:
    """The block goes when backward begins, or when the last node that keeps it lets go of it."""
    course = step.course
    if course.backward is None:
        return
    at = max(course.backward, course.last_release.get(block.id, -1) + 1)
    held_for_ever = any(node not in course.node_spans for node in course.savers.get(block.id, ()))
    freed = course.freed.get(block.id, len(step.log.events))
    if at < freed and not held_for_ever:
        _remove_free(step, block, change)
        change.insert(at, -block.nbytes)


def _gone_at_start(step: _Step, block: Block, change: Change) -> bool:
    """A block of an earlier step goes before this one begins."""
    if not any(one is block for one, _ in step.log.live) or block.savers:
        return False
    _remove_free(step, block, change)
    change.at_start -= block.nbytes
    return True


def _twins_gone(step: _Step, block: Block, change: Change) -> None:
    """What the same line left over from the step before would be gone, too."""
    for one, category in step.log.live:
        same = (one.site, one.op, one.module, one.nbytes) == (block.site, block.op, block.module, block.nbytes)
        if same and one.step == block.step - 1 and category in ("activation", "input", "temporary") and not one.savers:
            _gone_at_start(step, one, change)


# -- gradients ---------------------------------------------------------------------------------------------------------


def _free_gradients(step: _Step) -> Iterator[_Found]:
    """Gradients of the step before that are live in forward: zero_grad() would let go of them earlier."""
    old = [block for block, category in step.log.live if category == "gradient" and block.id in step.course.freed]
    begin = step.course.backward
    late = [
        block
        for block in old
        if block.device is step.device and (begin is None or step.course.freed[block.id] <= begin)
    ]
    if not late:
        return
    change = Change(at_start=-sum(block.nbytes for block in late))
    for block in late:
        _remove_free(step, block, change)
    size = format_size(sum(block.nbytes for block in late))
    text = f"gradients of the step before ({size}) live on in forward: zero_grad() right after step(): {{peaks}}."
    yield "free-gradients", text, change, True


def _step_in_backward(step: _Step) -> Iterator[_Found]:
    """Each parameter is updated as soon as its gradient is there, and the gradient let go of."""
    course, change = step.course, Change()
    nodes = sorted(end for _, end in course.node_spans.values())
    total = 0
    for block, category in step.at_peak.values():
        if category != "gradient" or block.id not in course.born or block.phase != "backward":
            continue
        until = next((end for end in nodes if end > course.born[block.id]), None)
        if until is None:
            continue
        _remove_free(step, block, change)
        change.insert(until + 1, -block.nbytes)
        total += block.nbytes
    if total:
        text = (
            f"gradients ({format_size(total)}) wait for the optimizer: step each parameter in a"
            " register_post_accumulate_grad_hook and set its grad to None there: about {peaks}."
        )
        yield "step-in-backward", text, change, False


# -- saved values ------------------------------------------------------------------------------------------------------


def _checkpoint(step: _Step) -> Iterator[_Found]:
    """Drop what modules of one kind keep, and compute it again when their backward begins."""
    groups: dict[str, list[tuple[str, int, int]]] = {}
    for call in step.course.modules:
        path, begin, end = call
        if end > begin and (step.course.backward is None or end <= step.course.backward):
            groups.setdefault(starred(path), []).append(call)
    found = []
    for pattern, calls in groups.items():
        change = Change()
        dropped = sum(_recompute(step, begin, end, change) for _, begin, end in calls)
        if dropped:
            found.append((dropped, pattern, change))
    found.sort(key=lambda one: -one[0])
    best = found[:_MOST_MODULES]
    results = [
        (highest(replay(step.log, step.device, change))[0], -dropped, pattern, change)
        for dropped, pattern, change in best
    ]
    for _, dropped, pattern, change in sorted(results, key=lambda one: one[:3])[:1]:
        text = f"checkpoint {pattern} (keeps {format_size(-dropped)}, which can be computed again): about {{peaks}}."
        yield "checkpoint", text, change, False


def _recompute(step: _Step, begin: int, end: int, change: Change) -> int:
    """Let one call of a module be computed again: bytes that it need not keep."""
    course, events = step.course, step.log.events
    nodes = [node for node, number in course.recorded.items() if begin < number < end]
    starts = [course.node_spans[node][0] for node in nodes if node in course.node_spans]
    if not starts:
        return 0
    at = min(starts)
    own = set(nodes)
    kept: dict[int, Block] = {}
    for node in nodes:
        for block, policy, _ in course.saves.get(node, ()):
            if block is None or policy != "keep" or block.device is not step.device:
                continue
            inside = begin < course.born.get(block.id, -1) < end
            if inside and own.issuperset(course.savers[block.id]) and course.freed.get(block.id, len(events)) > at:
                kept[block.id] = block
    if not kept:
        return 0
    change.insert(end, -sum(block.nbytes for block in kept.values()))
    change.insert(at, *_second_run(step, begin, end, kept))
    for node in nodes:
        for block in course.inputs.get(node, ()):
            _keep_until(step, block, begin, at, change)
    return sum(block.nbytes for block in kept.values())


def _keep_until(step: _Step, block: Block, begin: int, at: int, change: Change) -> None:
    """An input of a call is kept for the second run, where nothing else keeps it that long."""
    born, freed = step.course.born.get(block.id, -1), step.course.freed.get(block.id)
    if born < begin and freed is not None and freed < at and freed not in change.removed:
        _remove_free(step, block, change)
        if block.device is step.device:
            change.insert(at, -block.nbytes)


def _second_run(step: _Step, begin: int, end: int, kept: dict[int, Block]) -> Iterator[Inserted]:
    """The events of a call once more, up to its last save; what is not kept is gone at its end."""
    events = step.log.events
    last = max(number for number in range(begin, end) if type(events[number]) is tuple and events[number][0] == SAVE)
    yield "recompute"
    alive = 0
    for event in events[begin : last + 1]:
        if type(event) is Block and event.device is step.device:
            yield event.nbytes
            alive += 0 if event.id in kept else event.nbytes
        elif type(event) is tuple and event[0] == FREE and event[1].device is step.device:
            if begin < step.course.born.get(event[1].id, -1):
                yield -event[1].nbytes
                alive -= event[1].nbytes
    yield -alive
    yield "backward"


def _in_bfloat16(step: _Step) -> Iterator[_Found]:
    """Keep half the bits of what is saved."""
    course, change, total = step.course, Change(), 0
    events = len(step.log.events)
    for id_, savers in course.savers.items():
        block = next(
            (one for node in savers for one, _, _ in course.saves[node] if one is not None and one.id == id_), None
        )
        if block is None or block.device is not step.device or str(block.dtype) not in _FLOATS:
            continue
        if block.category in ("parameter", "buffer") or id_ not in course.born or step.names.get(id_):
            continue
        spans = [course.node_spans[node] for node in savers if node in course.node_spans]
        freed = course.freed.get(id_, events)
        unused = course.last_use[id_] + 1
        if len(spans) < len(savers) or freed <= unused:
            continue
        packed = block.nbytes // (2 if str(block.dtype) == "float32" else 4)
        _remove_free(step, block, change)
        change.insert(course.recorded[savers[0]], packed)
        change.insert(unused, -block.nbytes)
        for begin, end in spans:
            change.insert(begin + 1, block.nbytes)
            change.insert(end, -block.nbytes)
        change.insert(min(freed, events), -packed)
        total += block.nbytes
    if total:
        size = format_size(total)
        text = f'keep saved values ({size}) in bfloat16, which rounds them, with Cast("bfloat16"): about {{peaks}}.'
        yield "bfloat16", text, change, False
