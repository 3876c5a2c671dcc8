"""Parameters and buffers whose shapes are not known yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ..autograd.creation import empty
from ..autograd.tensor import Tensor
from ..memory import DeviceLike
from .parameter import Buffer, Parameter, relabel


class UninitializedTensorMixin:
    """What both have in common: `materialize`, and that there is no shape before it."""

    __slots__ = ()

    cls_to_become: ClassVar[type[Tensor]]

    def materialize(self, shape: Sequence[int], device: DeviceLike | None = None, dtype: Any = None) -> None:
        """Become a parameter or buffer of that shape, the same object, with memory that is still to be filled.

        Args:
            shape: its sizes.
            device, dtype: its own by default.
        """
        tensor: Any = self
        category = tensor._storage.category
        tensor.data = empty(
            tuple(shape),
            device=tensor.device if device is None else device,
            dtype=tensor.dtype if dtype is None else dtype,
        )
        tensor.__class__ = self.cls_to_become
        relabel(tensor, category)

    @property
    def shape(self) -> Any:
        """There is none: raises ``RuntimeError``."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in"
            " `load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward`"
            " to initialize the parameters before accessing their attributes."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a shape that is not known yet.

    Args:
        requires_grad: whether gradients flow to it.
        device, dtype: of its memory.

    >>> import stowgrad
    >>> weight = UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape, type(weight).__name__
    ((2, 3), 'Parameter')
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: DeviceLike | None = None, dtype: Any = None
    ) -> UninitializedParameter:
        made: Any = super().__new__(cls, empty((0,), device=device, dtype=dtype), requires_grad)
        return made  # type: ignore[no-any-return]

    def __init__(self, requires_grad: bool = True, device: DeviceLike | None = None, dtype: Any = None) -> None:
        """Nothing is left to do: see ``__new__``."""


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer of a shape that is not known yet.

    Args:
        device, dtype: of its memory.
        persistent: whether it belongs to the module's ``state_dict``.
    """

    cls_to_become = Buffer

    def __new__(
        cls, *, device: DeviceLike | None = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made: Any = super().__new__(cls, empty((0,), device=device, dtype=dtype), persistent=persistent)
        return made  # type: ignore[no-any-return]

    def __init__(self, *, device: DeviceLike | None = None, dtype: Any = None, persistent: bool = True) -> None:
        """Nothing is left to do: see ``__new__``."""


def is_lazy(value: Any) -> bool:
    """Whether a tensor has no shape yet."""
    return isinstance(value, UninitializedTensorMixin)
