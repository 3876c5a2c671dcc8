"""`ViewOp`: ops whose result shares the storage of their input."""

from __future__ import annotations

from typing import Any

from ..memory import Device
from ..saved_tensors.state import current
from .dispatch import Op, record
from .variable import Variable


class ViewOp(Op):
    """An op that looks at the same memory in another way; its gradient is computed like any other op's."""

    fresh = False

    def view(self, x: Any, *attrs: Any) -> Any:
        """The array that looks at ``x``; may be ``x`` itself."""
        raise NotImplementedError(f"{self.name} does not say how it views its input")

    def __call__(self, x: Any, *attrs: Any) -> Any:
        out = view_tensor(x, self.view(x._array, *attrs))
        if x._requires_grad and current().grad_enabled:
            record(self, (True,), (x,), [out], self.attrs(x._array, *attrs), x._storage.pool.device)
        return out

    def run_arrays(self, device: Device, *args: Any) -> Any:
        return self.view(*args)


def view_tensor(x: Any, array: Any) -> Any:
    """A tensor over a view of another's array: it shares the storage and knows its base."""
    out = Variable._tensor_class._wrap(array.view() if array is x._array else array, x._storage)
    out._metadata().base = x if x._meta is None or x._meta.base is None else x._meta.base
    return out
