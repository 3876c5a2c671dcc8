"""Live bytes over time, from the events of all steps: thinned, but with every phase's maximum."""

from __future__ import annotations

from ..memory import CATEGORIES
from .accounts import Account, Book
from .block import Block
from .log import FREE, PHASE, RELABEL, StepLog
from .model import Timeline

_MOST_POINTS = 2000
_INDEX = {name: index for index, name in enumerate(CATEGORIES)}
_Point = tuple[int, int, list[int]]  # time, total, totals by category


def timeline(book: Book, account: Account, origin: int) -> Timeline | None:
    """The timeline of a device; None if no events were kept."""
    logs = [] if book.logs is None else book.logs.all()
    events = sum(len(log.events) for log in logs)
    if not events:
        return None
    stride = max(1, -(-events // _MOST_POINTS))
    points: list[_Point] = []
    for log in logs:
        points += _points(log, account, stride)
    used = [name for name in CATEGORIES if any(point[2][_INDEX[name]] for point in points)]
    return Timeline(
        device=str(account.device),
        t_ns=tuple(max(t_ns - origin, 0) for t_ns, _, _ in points),
        by_category={name: tuple(totals[_INDEX[name]] for _, _, totals in points) for name in used},
    )


def _points(log: StepLog, account: Account, stride: int) -> list[_Point]:
    """Of every ``stride`` events, and of every phase, the highest point."""
    totals = [0] * len(CATEGORIES)
    for block, category in log.live:
        if block.device is account.device:
            totals[_INDEX[category]] += block.nbytes
    total, now = sum(totals), log.t_ns
    points: list[_Point] = [(now, total, totals[:])]
    best: _Point | None = None
    categories: dict[int, str] = {block.id: category for block, category in log.live}
    for number, event in enumerate(log.events):
        if type(event) is Block:
            now = event.t_ns
            if event.device is account.device:
                categories[event.id] = category = event.born_as
                total += event.nbytes
                totals[_INDEX[category]] += event.nbytes
                if best is None or total > best[1]:
                    best = now, total, totals[:]
        elif event[0] == FREE and event[1].device is account.device:
            category = categories.pop(event[1].id, event[1].category)
            total -= event[1].nbytes
            totals[_INDEX[category]] -= event[1].nbytes
        elif event[0] == RELABEL and event[1].device is account.device:
            totals[_INDEX[event[2]]] -= event[1].nbytes
            totals[_INDEX[event[3]]] += event[1].nbytes
            categories[event[1].id] = event[3]
        if best is not None and (number % stride == stride - 1 or (type(event) is tuple and event[0] == PHASE)):
            points.append(best)
            best = None
    if best is not None:
        points.append(best)
    return points
