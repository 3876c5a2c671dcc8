"""`ViewOp`: ops whose result shares the storage of their input."""

from __future__ import annotations

from typing import Any

from ..memory import Device
from ..saved_tensors.state import current
from .dispatch import Op, record
from .record import Do
from .variable import LiveViews, Metadata, Variable, ViewInfo


class ViewOp(Op):
    """An op that looks at the same memory in another way; its gradient is computed like any other op's."""

    fresh = False

    def view(self, x: Any, *args: Any) -> Any:
        """The array that looks at ``x``; may be ``x`` itself."""
        raise NotImplementedError(f"{self.name} does not say how it views its input")

    def __call__(self, x: Any, *args: Any) -> Any:
        array = self.view(x._array, *args)
        attrs = self.attrs(x._array, *args)
        recorded = current().grad_enabled
        out = view_tensor(x, array, self, args, attrs, None if recorded else unrecorded())
        if recorded and x._requires_grad:
            record(self, (True,), (x,), [out], attrs, x._storage.pool.device)
        return out

    def run_arrays(self, device: Device, *args: Any) -> Any:
        return self.view(*args)

    def take(self, do: Do, x: Any, *args: Any) -> Any:
        """The same elements of ``x``, whose memory may be in another order: a view, or a copy if it must be."""
        return do(self, x, *args)


def view_tensor(x: Any, array: Any, op: ViewOp, args: tuple[Any, ...], attrs: Any, origin: str | None) -> Any:
    """A tensor over a view of another's array: it shares the storage and knows its base, which knows it.

    Args:
        op, args, attrs: the view op that leads from ``x`` to it (see `ViewInfo`).
        origin: what forbids writing through it; what forbids that for ``x`` does so too.
    """
    out = Variable._tensor_class._wrap(array.view() if array is x._array else array, x._storage)
    base, parent = x, None
    if x._meta is not None and x._meta.view is not None:
        parent = view_of(x)
        if parent is not None:
            base = parent.base
            origin = origin or parent.origin
    out._meta = meta = Metadata()
    meta.view = ViewInfo(base, parent, op, args, attrs, origin)
    meta = base._metadata()
    if meta.views is None:
        meta.views = LiveViews()
    meta.views.add(out)
    return out


def unrecorded() -> str:
    """The origin of a view that is taken now, while nothing is recorded (see `ViewInfo`)."""
    return "inference" if current().inference else "no_grad"


def view_of(tensor: Any) -> ViewInfo | None:
    """How a tensor views another, None for its own base; one whose ``data`` was replaced since is no view any more."""
    view = None if tensor._meta is None else tensor._meta.view
    return view if view is not None and view.base._storage is tensor._storage else None
