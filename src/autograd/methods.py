"""What a tensor can do: mathematics, shapes and writing in place, as methods."""

from __future__ import annotations

from typing import Any, Self

from . import inplace
from .dispatch import SCALARS
from .ops import activation, elementwise, linalg, reduce, shape
from .ops.cast import clone, to_dtype
from .ops.promotion import is_floating
from .ops.reduce import Dims
from .ops.sum_to import expand
from .record import normalize_dim


def _is_comparable(other: object) -> bool:
    """Whether a comparison is about elements; with None and the like Python compares identities."""
    return isinstance(other, SCALARS) or hasattr(other, "dtype")


class MathMethods:
    """Arithmetic, functions, comparisons and reductions."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return elementwise.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return elementwise.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return elementwise.sub(self, other)

    def __rsub__(self, other: Any) -> Any:
        return elementwise.sub(other, self)

    def __mul__(self, other: Any) -> Any:
        return elementwise.mul(self, other)

    def __rmul__(self, other: Any) -> Any:
        return elementwise.mul(other, self)

    def __truediv__(self, other: Any) -> Any:
        return elementwise.div(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return elementwise.div(other, self)

    def __pow__(self, other: Any) -> Any:
        return elementwise.pow(self, other)

    def __rpow__(self, other: Any) -> Any:
        return elementwise.pow(other, self)

    def __matmul__(self, other: Any) -> Any:
        return linalg.matmul(self, other)

    def __neg__(self) -> Any:
        return elementwise.neg(self)

    def __abs__(self) -> Any:
        return elementwise.abs(self)

    def __eq__(self, other: object) -> Any:
        return elementwise.eq(self, other) if _is_comparable(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return elementwise.ne(self, other) if _is_comparable(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return elementwise.lt(self, other)

    def __le__(self, other: Any) -> Any:
        return elementwise.le(self, other)

    def __gt__(self, other: Any) -> Any:
        return elementwise.gt(self, other)

    def __ge__(self, other: Any) -> Any:
        return elementwise.ge(self, other)

    def __hash__(self) -> int:
        return id(self)

    def add(self, other: Any, *, alpha: float = 1) -> Any:
        """``self + alpha * other``."""
        return elementwise.add(self, other if alpha == 1 else _scaled(other, alpha))

    def sub(self, other: Any, *, alpha: float = 1) -> Any:
        """``self - alpha * other``."""
        return elementwise.sub(self, other if alpha == 1 else _scaled(other, alpha))

    def mul(self, other: Any) -> Any:
        """``self * other``."""
        return elementwise.mul(self, other)

    def div(self, other: Any) -> Any:
        """``self / other``."""
        return elementwise.div(self, other)

    def pow(self, exponent: Any) -> Any:
        """``self ** exponent``."""
        return elementwise.pow(self, exponent)

    def matmul(self, other: Any) -> Any:
        """The matrix product."""
        return linalg.matmul(self, other)

    def neg(self) -> Any:
        """``-self``."""
        return elementwise.neg(self)

    def abs(self) -> Any:
        """The absolute value."""
        return elementwise.abs(self)

    def exp(self) -> Any:
        """The exponential."""
        return elementwise.exp(self)

    def log(self) -> Any:
        """The natural logarithm."""
        return elementwise.log(self)

    def sqrt(self) -> Any:
        """The square root."""
        return elementwise.sqrt(self)

    def rsqrt(self) -> Any:
        """One over the square root."""
        return elementwise.rsqrt(self)

    def square(self) -> Any:
        """The square."""
        return elementwise.square(self)

    def reciprocal(self) -> Any:
        """``1 / self``."""
        return elementwise.reciprocal(self)

    def sin(self) -> Any:
        """The sine."""
        return elementwise.sin(self)

    def cos(self) -> Any:
        """The cosine."""
        return elementwise.cos(self)

    def tanh(self) -> Any:
        """The hyperbolic tangent."""
        return activation.tanh(self)

    def sigmoid(self) -> Any:
        """``1 / (1 + exp(-self))``."""
        return activation.sigmoid(self)

    def relu(self) -> Any:
        """``max(self, 0)``."""
        return activation.relu(self)

    def erf(self) -> Any:
        """The error function."""
        return activation.erf(self)

    def sign(self) -> Any:
        """-1, 0 or 1."""
        return elementwise.sign(self)

    def maximum(self, other: Any) -> Any:
        """The larger of two, elementwise."""
        return elementwise.maximum(self, other)

    def minimum(self, other: Any) -> Any:
        """The smaller of two, elementwise."""
        return elementwise.minimum(self, other)

    def masked_fill(self, mask: Any, value: Any) -> Any:
        """A copy with the elements where ``mask`` is true set to a number or a tensor of no dimension."""
        return elementwise.where(mask, inplace.checked_fill_value("masked_fill", self, mask, value), self)

    def eq(self, other: Any) -> Any:
        """``self == other``, elementwise."""
        return elementwise.eq(self, other)

    def sum(self, dim: Dims = None, keepdim: bool = False) -> Any:
        """The sum over dimensions, or over all."""
        return reduce.sum(self, dim, keepdim)

    def mean(self, dim: Dims = None, keepdim: bool = False) -> Any:
        """The mean over dimensions, or over all."""
        return reduce.mean(self, dim, keepdim)

    def amax(self, dim: Dims = None, keepdim: bool = False) -> Any:
        """The largest element over dimensions, or over all."""
        return reduce.amax(self, dim, keepdim)

    def max(self) -> Any:
        """The largest element of all."""
        return reduce.amax(self)

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The index of the largest element along a dimension, or in the flattened tensor."""
        return reduce.argmax(self, dim, keepdim)

    def all(self) -> Any:
        """Whether all elements are true (not zero)."""
        return elementwise.eq(reduce.sum(elementwise.eq(self, 0)), 0)

    def any(self) -> Any:
        """Whether any element is true (not zero)."""
        return elementwise.gt(reduce.sum(elementwise.ne(self, 0)), 0)

    def softmax(self, dim: int) -> Any:
        """Soft-max along a dimension."""
        return reduce.softmax(self, dim)

    def log_softmax(self, dim: int) -> Any:
        """The logarithm of soft-max along a dimension."""
        return reduce.log_softmax(self, dim)


def _sizes(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    return tuple(int(size) for size in sizes)


class ShapeMethods:
    """Views and copies of another shape."""

    __slots__ = ()

    _array: Any

    def view(self, *sizes: Any) -> Any:
        """The same elements in another shape, without a copy; one size may be -1."""
        return shape.view(self, _sizes(sizes))

    def reshape(self, *sizes: Any) -> Any:
        """The same elements in another shape: a view where strides allow it, a copy where not."""
        return shape.reshape(self, _sizes(sizes))

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:
        """The dimensions from one to another as one."""
        sizes = self._array.shape
        if not sizes:
            return shape.reshape(self, (1,))
        start = normalize_dim("flatten", start_dim, len(sizes))
        end = normalize_dim("flatten", end_dim, len(sizes))
        if start == end:
            return self
        if start > end:
            raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
        merged = 1
        for size in sizes[start : end + 1]:
            merged *= size
        return shape.reshape(self, (*sizes[:start], merged, *sizes[end + 1 :]))

    def permute(self, *dims: Any) -> Any:
        """The dimensions in another order: a view."""
        return shape.permute(self, _sizes(dims))

    def transpose(self, dim0: int, dim1: int) -> Any:
        """Two dimensions swapped: a view."""
        return shape.transpose(self, dim0, dim1)

    def t(self) -> Any:
        """The transpose of a matrix (or a vector as it is): a view."""
        if self._array.ndim > 2:
            raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {self._array.ndim}D")
        return shape.transpose(self, 0, 1) if self._array.ndim == 2 else shape.view(self, self._array.shape)

    @property
    def T(self) -> Any:  # PyTorch's name
        """The dimensions in reverse order: a view."""
        return shape.permute(self, tuple(reversed(range(self._array.ndim))))

    @property
    def mT(self) -> Any:  # PyTorch's name
        """The last two dimensions swapped: a view."""
        if self._array.ndim == 1:
            raise RuntimeError("mT is only supported on matrices or batches of matrices, got a vector")
        return shape.transpose(self, -2, -1) if self._array.ndim else self

    def expand(self, *sizes: Any) -> Any:
        """A view in which dimensions of size 1 are repeated; -1 keeps a size."""
        return expand(self, _sizes(sizes))

    def unsqueeze(self, dim: int) -> Any:
        """A new dimension of size 1: a view."""
        dim = normalize_dim("unsqueeze", dim, self._array.ndim + 1)
        sizes = self._array.shape
        return shape.index(self, (*[slice(None)] * dim, None)) if sizes else shape.view(self, (1,))

    def squeeze(self, dim: int | None = None) -> Any:
        """A dimension of size 1 (or all of them) left out: a view."""
        sizes = self._array.shape
        chosen = range(len(sizes)) if dim is None else (normalize_dim("squeeze", dim, len(sizes)),)
        key = tuple(0 if d in chosen and size == 1 else slice(None) for d, size in enumerate(sizes))
        return shape.index(self, key)

    def narrow(self, dim: int, start: int, length: int) -> Any:
        """A stretch of one dimension: a view."""
        dim = normalize_dim("narrow", dim, self._array.ndim)
        size = self._array.shape[dim]
        if not 0 <= start <= size or length < 0 or start + length > size:
            raise RuntimeError(f"narrow: start ({start}) + length ({length}) exceeds dimension size ({size}).")
        return shape.index(self, (*[slice(None)] * dim, slice(start, start + length)))

    def split(self, split_size: int | list[int] | tuple[int, ...], dim: int = 0) -> Any:
        """Views of consecutive stretches of one dimension."""
        dim = normalize_dim("split", dim, self._array.ndim)
        size = self._array.shape[dim]
        if isinstance(split_size, int):
            if split_size <= 0:
                raise RuntimeError(f"split expects split_size be positive, but got split_size={split_size}")
            sizes = [min(split_size, size - start) for start in range(0, max(size, 1), split_size)]
        else:
            sizes = list(split_size)
            if sum(sizes) != size or min(sizes, default=0) < 0:
                raise RuntimeError(f"split: the sizes {sizes} must add up to {size}, the size of dimension {dim}")
        return shape.split(self, sizes, dim)

    def chunk(self, chunks: int, dim: int = 0) -> Any:
        """Views of at most ``chunks`` stretches of equal size."""
        if chunks <= 0:
            raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
        size = self._array.shape[normalize_dim("chunk", dim, self._array.ndim)]
        return self.split(max(-(-size // chunks), 1), dim)

    def unbind(self, dim: int = 0) -> Any:
        """Views of the elements along one dimension."""
        dim = normalize_dim("unbind", dim, self._array.ndim)
        return shape.unbind(self, dim)

    def contiguous(self) -> Any:
        """The tensor itself if its elements lie in C order, a copy otherwise."""
        return self if self._array.flags.c_contiguous else clone(self)

    def clone(self) -> Any:
        """A copy; gradients flow through it."""
        return clone(self)


class InPlaceMethods:
    """Writing into a tensor's own memory; each returns the tensor."""

    __slots__ = ()

    def add_(self, other: Any, *, alpha: float = 1) -> Self:
        """Add ``alpha * other``."""
        return inplace.binary_(elementwise.add, self, other if alpha == 1 else _scaled(other, alpha))  # type: ignore[no-any-return]

    def sub_(self, other: Any, *, alpha: float = 1) -> Self:
        """Subtract ``alpha * other``."""
        return inplace.binary_(elementwise.sub, self, other if alpha == 1 else _scaled(other, alpha))  # type: ignore[no-any-return]

    def mul_(self, other: Any) -> Self:
        """Multiply by ``other``."""
        return inplace.binary_(elementwise.mul, self, other)  # type: ignore[no-any-return]

    def div_(self, other: Any) -> Self:
        """Divide by ``other``."""
        return inplace.binary_(elementwise.div, self, other)  # type: ignore[no-any-return]

    def pow_(self, exponent: Any) -> Self:
        """Raise to a power."""
        return inplace.binary_(elementwise.pow, self, exponent)  # type: ignore[no-any-return]

    def neg_(self) -> Self:
        """Change the sign."""
        return inplace.unary_(elementwise.neg, self)  # type: ignore[no-any-return]

    def abs_(self) -> Self:
        """Take the absolute value."""
        return inplace.unary_(elementwise.abs, self)  # type: ignore[no-any-return]

    def square_(self) -> Self:
        """Take the square."""
        return inplace.unary_(elementwise.square, self)  # type: ignore[no-any-return]

    def sqrt_(self) -> Self:
        """Take the square root."""
        return inplace.unary_(elementwise.sqrt, self)  # type: ignore[no-any-return]

    def reciprocal_(self) -> Self:
        """Take ``1 / self``."""
        return inplace.unary_(elementwise.reciprocal, self)  # type: ignore[no-any-return]

    def exp_(self) -> Self:
        """Take the exponential."""
        return inplace.unary_(elementwise.exp, self)  # type: ignore[no-any-return]

    def log_(self) -> Self:
        """Take the natural logarithm."""
        return inplace.unary_(elementwise.log, self)  # type: ignore[no-any-return]

    def sin_(self) -> Self:
        """Take the sine."""
        return inplace.unary_(elementwise.sin, self)  # type: ignore[no-any-return]

    def cos_(self) -> Self:
        """Take the cosine."""
        return inplace.unary_(elementwise.cos, self)  # type: ignore[no-any-return]

    def tanh_(self) -> Self:
        """Take the hyperbolic tangent."""
        return inplace.unary_(activation.tanh, self)  # type: ignore[no-any-return]

    def sigmoid_(self) -> Self:
        """Take ``1 / (1 + exp(-self))``."""
        return inplace.unary_(activation.sigmoid, self)  # type: ignore[no-any-return]

    def relu_(self) -> Self:
        """Take ``max(self, 0)``."""
        return inplace.unary_(activation.relu, self)  # type: ignore[no-any-return]

    def copy_(self, source: Any) -> Self:
        """Take the values of ``source``, which are broadcast and cast."""
        return inplace.copy_(self, source)  # type: ignore[no-any-return]

    def fill_(self, value: Any) -> Self:
        """Set all elements to a number, or to a tensor of no dimension."""
        return inplace.fill_(self, value)  # type: ignore[no-any-return]

    def zero_(self) -> Self:
        """Set all elements to 0."""
        return inplace.fill_(self, 0, "zero")  # type: ignore[no-any-return]

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        """Set the elements where ``mask`` is true to a number or a tensor of no dimension."""
        return inplace.masked_fill_(self, mask, value)  # type: ignore[no-any-return]

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Self:
        """Fill with normal random numbers."""
        return inplace.random_("normal_", self, "normal", generator, mean=mean, std=std)  # type: ignore[no-any-return]

    def uniform_(self, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Self:
        """Fill with random numbers from ``low`` (included) to ``high`` (not)."""
        return inplace.random_("uniform_", self, "uniform", generator, low=low, high=high)  # type: ignore[no-any-return]

    def __iadd__(self, other: Any) -> Self:
        return self.add_(other)

    def __isub__(self, other: Any) -> Self:
        return self.sub_(other)

    def __imul__(self, other: Any) -> Self:
        return self.mul_(other)

    def __itruediv__(self, other: Any) -> Self:
        return self.div_(other)

    def __ipow__(self, other: Any) -> Self:
        return self.pow_(other)


def _scaled(value: Any, alpha: float) -> Any:
    """``alpha * value`` in the dtype of ``value``, which ``alpha`` must not leave.

    Raises:
        RuntimeError: for a float with a tensor of integers or bools.
    """
    if not hasattr(value, "_array"):
        return value * alpha
    dtype = value._array.dtype
    if isinstance(alpha, float) and not is_floating(dtype):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    scaled = elementwise.mul(value, alpha)
    return scaled if scaled._array.dtype == dtype else to_dtype(scaled, dtype)  # bool * 2 is no bool
