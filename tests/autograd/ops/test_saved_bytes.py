"""What a graph holds: the leaves, and of each op the slots that its record declares for the gradients in demand."""

from __future__ import annotations

import pytest

from stowgrad.memory import CPU, pool

from .cases import CASES, nodes_of

over_cases = pytest.mark.parametrize("case", CASES, ids=[f"{case.op} {case.label}".strip() for case in CASES])


def demands(case):
    """Which inputs require grad: all that can, and each of them alone."""
    count = len(case.needs)
    alone = [tuple(here == position for here in range(count)) for position in range(count) if case.needs[position]]
    return [case.needs, *(alone if len(alone) > 1 else [])]


@over_cases
def test_a_node_keeps_what_its_record_declares(case):
    for needs in demands(case):
        for node in nodes_of(case.function(*case.tensors(needs=needs))):
            plan = node.record.plan(node.needs_grad)
            assert len(node.saved_variables) == len(plan), node.name()
            undeclared = [
                variable.slot if variable.plain is None else variable.plain.shape
                for slot, variable in zip(plan, node.saved_variables, strict=True)
                if slot is None and variable is not None
            ]
            assert undeclared == [], node.name()


@over_cases
def test_a_graph_holds_the_leaves_and_what_was_saved(case):
    case.function(*case.tensors())  # what is made once for all uses is there now
    memory = pool(CPU)
    for needs in demands(case):
        kept = memory.live()
        before = {id(storage) for storage in kept}
        tensors = case.tensors(needs=needs)
        nodes = nodes_of(case.function(*tensors))
        declared = {id(tensor._storage): tensor._storage.nbytes for tensor in tensors}
        for node in nodes:
            for variable in node.saved_variables:
                if variable is not None:
                    declared[id(variable.storage)] = variable.storage.nbytes
        held = sum(storage.nbytes for storage in memory.live() if id(storage) not in before)
        assert held == sum(declared.values())
