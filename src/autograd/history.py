"""Histories that change: of a tensor that was written in place, and of all views of its memory.

NOTE [ Histories ]
1. A tensor that is no view gets the node of the write as its history. Hooks stay with the node on which they were put;
   a retained gradient moves to the new one.
2. Of a view it is the base that was changed: the base gets a `CopySlices` node, which holds the node of the write. All
   views of the base that are alive are then made again from it, step by step. This happens at once: nothing has to be
   looked up when a tensor is used.
3. What can't be made again (views that were taken under ``no_grad``, or that a user's Function returned) gets a node
   that raises in backward: its memory has changed in a way that its history does not show.
4. A write under ``no_grad`` changes no history.
"""

from __future__ import annotations

from typing import Any

from ..memory import events
from .copy_slices import CopySlices, step_node
from .node import Node, gradient_edge
from .record import Do, Record
from .variable import ViewInfo
from .view_op import view_of

# A view of one of these origins can be made again from its base.
_REPEATABLE = (None, "multi")
_NO_GRAD = "created in no_grad mode"
_INFERENCE = "created in inference mode"
_MULTI = (
    "the output of a function that returns multiple views. Such functions do not allow the output views to be modified"
    " inplace. You should replace the inplace operation by an out-of-place one"
)
_FUNCTION = (
    "created inside a custom Function (or because an input was returned as-is), and writing through it would bypass the"
    " custom backward. You can fix this by cloning the output of the custom Function"
)
_REASONS = {
    "no_grad": _NO_GRAD,
    "inference": _INFERENCE,
    "multi": _MULTI,
    "function": _FUNCTION,
    "function_multi": _MULTI,
}


def check_history(name: str, target: Any) -> None:
    """Raise if a tensor may not be written by an op that is recorded.

    Raises:
        RuntimeError: for a leaf that requires grad, a view of one, and views through which none may write.
    """
    view = view_of(target)
    if view is not None:
        if view.origin is not None:
            raise RuntimeError(
                f"{name}: a view is being modified inplace with grad mode enabled. This view was"
                f" {_REASONS[view.origin]}."
                if view.origin in ("no_grad", "inference")
                else f"{name}: a view is being modified inplace. This view is {_REASONS[view.origin]}."
            )
        if view.base._requires_grad and view.base._grad_fn is None:
            raise RuntimeError(
                f"{name}: a view of a leaf Variable that requires grad is being used in an in-place operation."
            )
    if target._requires_grad and target._grad_fn is None:
        raise RuntimeError(f"{name}: a leaf Variable that requires grad is being used in an in-place operation.")


def rebase(target: Any, node: Node, position: int, output_nr: int = 0) -> CopySlices | None:
    """Give a tensor that was written the history of the write (note, rules 1 and 2).

    Args:
        target: the tensor.
        node: the node of the write, with an edge to the target's former history.
        position: which of the node's edges that is.
        output_nr: which of its outputs the target is now; a view must be the only one.

    Returns: what the base of a view got as its history.
    """
    view = view_of(target)
    if view is None:
        set_history(target, node, output_nr)
        remake_views(target)
        return None
    _report(node)
    outer = CopySlices(node, position, view)
    set_history(view.base, outer)
    remake_views(view.base)
    return outer


def _report(node: Node) -> None:
    for observer in events.observers:
        observer.recorded(node)


def set_history(tensor: Any, node: Any, output_nr: int = 0) -> None:
    """Make a tensor an output of a node; a gradient that it retains moves there."""
    former, number = tensor._grad_fn, tensor._output_nr
    tensor._grad_fn, tensor._output_nr, tensor._requires_grad = node, output_nr, True
    meta = tensor._meta
    if meta is not None and meta.retains_grad and former is not None:
        retained = {} if former.node_hooks is None else former.node_hooks.retained
        if number in retained and retained[number]() is tensor:
            del retained[number]
        tensor.retain_grad()
    _report(node)


def remake_views(base: Any) -> None:
    """Make the histories of all views of a tensor again (note, rules 2 and 3)."""
    views = None if base._meta is None else base._meta.views
    if views is None:
        return
    for view in views.alive():
        info = view_of(view)
        if info is not None:
            set_history(view, _remade(base, info))


def _remade(base: Any, info: ViewInfo) -> Node:
    device = base._storage.pool.device
    if info.origin not in _REPEATABLE:
        return step_node(_STALE[info.origin], None, gradient_edge(base), device)
    edge = gradient_edge(base)
    for step in info.steps():
        node = step_node(step.op, step.attrs, edge, device)
        edge = (node, 0)
    return node


class _StaleView(Record):
    """A view whose memory was changed by an op that its history does not show (note, rule 3)."""

    name = "stale_view"

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def backward(self, do: Do, node: Any, saved: tuple[Any, ...], *grads: Any) -> tuple[Any, ...]:
        raise RuntimeError(
            "the base of a view, or another view of its base, has been modified inplace with grad mode enabled, and the"
            f" view has been used since. This view was {self._reason}. Take the view again after the change."
        )


_STALE: dict[str | None, _StaleView] = {
    origin: _StaleView(reason) for origin, reason in _REASONS.items() if origin not in _REPEATABLE
}
