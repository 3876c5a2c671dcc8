"""`GraphExecGroup`: several passes that share one recomputation."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from .oplog import CheckpointError

_group: ContextVar[GraphExecGroup | None] = ContextVar("stowgrad_exec_group", default=None)


class GraphExecGroup:
    """Passes backward in a block of code share what they compute again: it is dropped at the end of the block.

    For several losses over one checkpointed region, whose passes (with ``retain_graph=True``) would each run it again.

    Raises:
        CheckpointError: on enter, inside of another group.

    >>> import stowgrad
    >>> from stowgrad.checkpoint import GraphExecGroup, checkpoint
    >>> runs = []
    >>> x = stowgrad.ones(2, requires_grad=True)
    >>> y = checkpoint(lambda t: (runs.append(1), (t * t).exp())[1], x)
    >>> with GraphExecGroup():
    ...     y[0].backward(retain_graph=True)
    ...     y[1].backward()
    >>> len(runs)
    2
    """

    def __init__(self) -> None:
        self._regions: dict[int, Any] = {}

    def empty_at_end(self, region: Any) -> None:
        """Drop what a region has computed again when the group ends."""
        self._regions[id(region)] = region

    def __enter__(self) -> GraphExecGroup:
        if _group.get() is not None:
            raise CheckpointError("GraphExecGroup contexts can't be nested: it would not be clear whose passes share")
        _group.set(self)
        return self

    def __exit__(self, *exc_info: object) -> None:
        _group.set(None)
        regions, self._regions = self._regions, {}
        for region in regions.values():
            region.empty()


def current_group() -> GraphExecGroup | None:
    """The group that the code that asks runs in."""
    return _group.get()
