"""The table of ops: for each record, functions that use it, with inputs away from kinks and poles; a file a family.

Each file offers ``CASES`` and, where it has such ops, ``NOT_DIFFERENTIABLE`` (their results never require grad) and
``FUSED`` (gradients that only run where nothing is recorded; the cases of the op before ``_backward`` run them).
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import stowgrad.autograd.ops
from stowgrad.autograd.record import Record

from .case import Case

FAMILIES = [
    importlib.import_module(f"{__name__}.{module.name}")
    for module in pkgutil.iter_modules(__path__)
    if module.name != "case"
]
ALL: list[Case] = [case for family in FAMILIES for case in family.CASES]
# The gradient of rows numbered `padding` is left out on purpose: differences see it.
CASES = [case for case in ALL if case.label != "no gradient"]
NOT_DIFFERENTIABLE: set[str] = set().union(*(getattr(family, "NOT_DIFFERENTIABLE", ()) for family in FAMILIES))
FUSED: set[str] = set().union(*(getattr(family, "FUSED", ()) for family in FAMILIES))


def all_records() -> dict[str, type[Record]]:
    """The class of every op that a module of `stowgrad.autograd.ops` defines, by name."""
    for module in pkgutil.iter_modules(stowgrad.autograd.ops.__path__):
        importlib.import_module(f"{stowgrad.autograd.ops.__name__}.{module.name}")
    found: dict[str, type[Record]] = {}
    pending: list[type[Record]] = [Record]
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        if cls.name and cls.__module__.startswith(stowgrad.autograd.ops.__name__):
            found[cls.name] = cls
    return found


def nodes_of(results: Any) -> list[Any]:
    """All nodes that a result, or several, come from, the accumulators of leaves left out."""
    results = results if isinstance(results, tuple) else (results,)
    found: dict[Any, None] = {}
    pending = [result.grad_fn for result in results]
    while pending:
        node = pending.pop()
        if node is not None and node not in found and hasattr(node, "record"):
            found[node] = None
            pending += [edge[0] for edge in node.next_functions]
            pending.append(getattr(node, "inner", None))  # of a write through a view
    return list(found)
