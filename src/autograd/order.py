"""Walks over a graph before it is run: how many gradients each node waits for, who leads where, in which order."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from operator import attrgetter
from typing import Any

_number = attrgetter("sequence_nr")


def count_dependencies(roots: Iterable[Any], targets: Collection[Any] = ()) -> dict[Any, int]:
    """For each node that the roots reach, how many edges lead to it; without recursion.

    Edges lead to lower numbers or to leaves: where only ``targets`` are asked for, nothing is looked for behind the
    oldest of them and what is older still.
    """
    dependencies = dict.fromkeys(roots, 0)
    pending = list(dependencies)
    oldest = _oldest_inner(targets)
    while pending:
        node = pending.pop()
        if node.sequence_nr <= oldest:
            continue
        for successor, _ in node.next_edges:
            if successor is None:
                continue
            count = dependencies.get(successor)
            if count is None:
                dependencies[successor] = 1
                pending.append(successor)
            else:
                dependencies[successor] = count + 1
    return dependencies


def _oldest_inner(targets: Collection[Any]) -> int:
    """The lowest number among the targets; -1 where there are none, or where a leaf is one."""
    oldest = -1
    for target in targets:
        if target.accumulates_into is not None:
            return -1
        if oldest == -1 or target.sequence_nr < oldest:
            oldest = target.sequence_nr
    return oldest


def leading_to(targets: Iterable[Any], reached: Collection[Any]) -> tuple[set[Any], set[Any]]:
    """Which of the reached nodes are targets or on a path to one; and which of these are on a path.

    An edge leads to a node with a lower number, or to a leaf.
    """
    needed = {node for node in targets if node in reached}
    on_a_path = set()
    inner = [node for node in reached if node.next_edges]
    if len(inner) > 1:
        inner.sort(key=_number)
    for node in inner:
        for successor, _ in node.next_edges:
            if successor in needed:
                needed.add(node)
                on_a_path.add(node)
                break
    return needed, on_a_path


def execution_order(roots: Iterable[Any], needed: set[Any] | None) -> list[Any]:
    """The nodes in the order in which a pass from the roots runs them; only ``needed`` ones unless that is None."""
    dependencies = count_dependencies(roots)
    order: list[Any] = []
    ready: list[tuple[int, Any]] = []

    def arrive(node: Any) -> None:
        if node.accumulates_into is None:
            heapq.heappush(ready, (-node.sequence_nr, node))
        elif needed is None or node in needed:
            order.append(node)

    for node in [node for node, count in dependencies.items() if count == 0]:
        arrive(node)
    while ready:
        node = heapq.heappop(ready)[1]
        if needed is not None and node not in needed:
            continue
        order.append(node)
        for successor, _ in node.next_edges:
            if successor is not None and (needed is None or successor in needed):
                dependencies[successor] -= 1
                if dependencies[successor] == 0:
                    arrive(successor)
    return order
