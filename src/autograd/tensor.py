"""`Tensor`: an array with a place in a graph, with PyTorch's methods."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from ..memory import CPU, META, Device, pool
from ..saved_tensors.state import current
from .backward import backward
from .conversions import ConversionMethods
from .copying import CopyMethods
from .entries import offer_methods
from .hooks import HookTable, RemovableHandle
from .indexing import getitem, setitem
from .methods import (
    ActivationMethods,
    ComplexMethods,
    CreationMethods,
    ElementwiseMethods,
    IndexMethods,
    InPlaceViewMethods,
    LinalgMethods,
    Operators,
    OrderMethods,
    QueryMethods,
    RandomMethods,
    ReduceMethods,
    ShapeMethods,
    SpectrumMethods,
)
from .ops.cast import copy_array_to
from .ops.promotion import category, get_default_dtype, is_floating
from .printing import tensor_text
from .protocols import NumpyProtocols
from .size import Size
from .variable import Variable
from .view_op import view_of


class Tensor(
    Variable,
    Operators,
    ElementwiseMethods,
    ActivationMethods,
    OrderMethods,
    QueryMethods,
    RandomMethods,
    ReduceMethods,
    ShapeMethods,
    InPlaceViewMethods,
    IndexMethods,
    LinalgMethods,
    ComplexMethods,
    SpectrumMethods,
    CreationMethods,
    ConversionMethods,
    CopyMethods,
    NumpyProtocols,
):
    """An array of one dtype on one device, whose ops are recorded for gradients.

    Made by `stowgrad.tensor`, `stowgrad.from_numpy`, the factories and by ops. Its memory belongs to a
    `stowgrad.memory.Storage`, which views share.
    """

    __slots__ = ()

    __hash__ = Operators.__hash__

    def __new__(cls, data: Any = (), *args: Any, **kwargs: Any) -> Self:
        """A tensor of a sequence of numbers, or uninitialised of some sizes: PyTorch's old constructor.

        Its dtype is the default one; prefer `stowgrad.tensor`.
        """
        if isinstance(data, int):
            made = pool(CPU).lease((data, *args), get_default_dtype())
        else:
            made = copy_array_to(np.asarray(data, get_default_dtype()), CPU, "activation")
        return cls._wrap(*made)  # type: ignore[no-any-return]

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dimension."""
        return self._array.shape  # type: ignore[no-any-return]

    def size(self, dim: int | None = None) -> Any:
        """The sizes, a `Size`; or that of one dimension."""
        return tuple.__new__(Size, self._array.shape) if dim is None else self._array.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """How many elements lie between neighbours, in each dimension or one."""
        strides = tuple(step // self._array.itemsize for step in self._array.strides)
        return strides if dim is None else strides[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim  # type: ignore[no-any-return]

    def dim(self) -> int:
        """The number of dimensions."""
        return self._array.ndim  # type: ignore[no-any-return]

    def numel(self) -> int:
        """The number of elements."""
        return int(self._array.size)

    nelement = numel

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self._array.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self._array.nbytes)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._array.dtype  # type: ignore[no-any-return]

    @property
    def device(self) -> Device:
        """Where the memory is."""
        return self._storage.device

    def is_contiguous(self) -> bool:
        """Whether the elements lie in C order."""
        return bool(self._array.flags.c_contiguous)

    def is_floating_point(self) -> bool:
        """Whether the dtype is a floating-point one."""
        return category(self._array.dtype) == 2

    def __len__(self) -> int:
        if not self._array.ndim:
            raise TypeError("len() of a 0-d tensor")
        return len(self._array)

    def __iter__(self) -> Iterator[Any]:
        if not self._array.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __repr__(self) -> str:
        return tensor_text(self)

    # -- its place in the graph ---------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it, or to the tensor that it views; setting it is for leaves."""
        if self._requires_grad or self._meta is None:
            return self._requires_grad
        view = view_of(self)
        return view is not None and view.base._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say whether gradients flow to this leaf.

        Raises:
            RuntimeError: for integers and bools, and for switching it off on a tensor that is no leaf.
        """
        if requires_grad and not is_floating(self._array.dtype):
            raise RuntimeError(
                f"only Tensors of floating point and complex dtype can require gradients; this one is"
                f" {self._array.dtype}"
            )
        if requires_grad and self._storage.is_inference and not current().inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if not requires_grad and self._grad_fn is not None:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a"
                " subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        self._requires_grad = bool(requires_grad)
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no op was recorded for it."""
        return self._grad_fn is None

    @property
    def grad_fn(self) -> Any:
        """The node that made it, or None for a leaf."""
        return self._grad_fn

    @property
    def output_nr(self) -> int:
        """Which output of its node it is."""
        return self._output_nr

    def _check_grad(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(
                f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        for what, got, expected in (
            ("data of a different shape", value.shape, self.shape),
            ("data of a different dtype", value.dtype, self.dtype),
            ("data located on a different device", value.device, self.device),
        ):
            if got != expected:
                raise RuntimeError(f"assigned grad has {what}: expected {expected}, got {got}")

    @property
    def grad(self) -> Any:
        """The gradient that passes have accumulated here, or None."""
        meta = self._meta
        if self._grad_fn is not None and not (meta is not None and meta.retains_grad):
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't"
                " be populated during autograd.backward(). If you indeed want the .grad field to be populated for a"
                " non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
                UserWarning,
                stacklevel=2,
            )
        return None if meta is None else meta.grad

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            self._check_grad(value)
        self._metadata().grad = value

    @grad.deleter
    def grad(self) -> None:
        self._metadata().grad = None

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        """Accumulate the gradients of this tensor into the leaves that it depends on; see `autograd.backward`."""
        backward(self, gradient, retain_graph, create_graph, inputs)

    def detach(self) -> Any:
        """A leaf over the same memory and version, outside of the graph."""
        return Tensor._wrap(self._array, self._storage)

    def detach_(self) -> Self:
        """Take this tensor out of the graph: it becomes a leaf that doesn't require grad.

        Raises:
            RuntimeError: for a view.
        """
        if view_of(self) is not None:
            raise RuntimeError(
                "Can't detach views in-place: use detach() instead. If you are using a function that returns views,"
                " detach its input."
            )
        self._grad_fn, self._output_nr, self._requires_grad = None, 0, False
        return self

    @property
    def data(self) -> Any:
        """The same as `detach`: writing through it is seen by saved values."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if value.dtype != self.dtype and self._requires_grad and not is_floating(value.dtype):
            raise RuntimeError(f"data of dtype {value.dtype} cannot require gradients, which this tensor does")
        self._storage.version += 1
        self._array, self._storage = value._array, value._storage

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf in ``grad`` too.

        Raises:
            RuntimeError: if it does not require grad.
        """
        if not self._requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self._grad_fn is None:
            return
        self._metadata().retains_grad = True
        self._grad_fn.ensure_hooks().retained[self._output_nr] = weakref.ref(self)

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on this non-leaf."""
        return self._meta is not None and self._meta.retains_grad

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call ``hook(grad)`` when the gradient of this tensor has been computed; what it returns replaces that.

        Raises:
            RuntimeError: if the tensor does not require grad.
        """
        if not self._requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._grad_fn is not None:
            hooks = self._grad_fn.ensure_hooks().tensor.setdefault(self._output_nr, HookTable())
        else:
            meta = self._metadata()
            hooks = meta.hooks = HookTable() if meta.hooks is None else meta.hooks
        return RemovableHandle(hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Call ``hook(tensor)`` when a gradient has been accumulated into this leaf; it may use and free ``.grad``.

        Raises:
            RuntimeError: if the tensor does not require grad or is no leaf.
        """
        if not self._requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self._grad_fn is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        meta = self._metadata()
        if meta.post_hooks is None:
            meta.post_hooks = HookTable()
        return RemovableHandle(meta.post_hooks, hook)

    @property
    def _version(self) -> int:
        if self._storage.is_inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._storage.version

    def is_inference(self) -> bool:
        """Whether it was made in inference mode, or is a view of such a tensor."""
        return self._storage.is_inference

    @property
    def _base(self) -> Any:
        view = None if self._meta is None else self._meta.view
        return None if view is None else view.base

    def _is_view(self) -> bool:
        return self._meta is not None and self._meta.view is not None

    # -- conversions --------------------------------------------------------------------------------------------------

    def item(self) -> Any:
        """The only element as a Python number.

        Raises:
            RuntimeError: if there is not exactly one.
        """
        if self._array.size != 1:
            raise RuntimeError(f"a Tensor with {self._array.size} elements cannot be converted to Scalar")
        return self._host("item").reshape(()).item()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self._host("tolist").tolist()

    def _host(self, what: str) -> np.ndarray[Any, Any]:
        """The values as a NumPy array: the tensor's own on the CPU, a copy of a device's."""
        if self.device is META:
            raise RuntimeError(f"{what}(): a tensor on the meta device has no data")
        if self.device is CPU:
            return self._array  # type: ignore[no-any-return]
        return copy_array_to(self._array, CPU, "temporary")[0]  # type: ignore[no-any-return]

    def numpy(self, *, force: bool = False) -> np.ndarray[Any, Any]:
        """The NumPy array of this tensor, sharing its memory.

        Args:
            force: detach, and copy from another device, where that is needed.

        Raises:
            RuntimeError: if the tensor requires grad.
            TypeError: if it is on another device.
        """
        if force:
            return self._host("numpy")
        if self._requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        if self.device is not CPU:
            raise TypeError(
                f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy it first."
            )
        return self._array  # type: ignore[no-any-return]

    def __getitem__(self, key: Any) -> Any:
        return getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        setitem(self, key, value)

    @property
    def is_cuda(self) -> Any:
        """Whether the memory is a CUDA device's."""
        return self.device.type == "cuda"


Variable._tensor_class = Tensor

# What only looks at a tensor and cannot fail is spared the entry's 25 ns: NOTE [ Entries ].
_LOOKS = frozenset({
    "__hash__", "data", "detach", "device", "dim", "dtype", "element_size", "grad", "grad_fn", "is_contiguous",
    "is_cpu", "is_cuda", "is_floating_point", "is_leaf", "is_meta", "is_quantized", "is_sparse", "itemsize", "layout",
    "nbytes", "ndim", "ndimension", "nelement", "numel", "output_nr", "requires_grad", "retains_grad", "shape",
})  # fmt: skip
offer_methods(*Tensor.__mro__[:-1], leave=_LOOKS)
