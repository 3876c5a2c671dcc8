"""Mixed precision: which ops compute in 16 bits, which in float32, like ``torch.autocast``.

NOTE [ Autocast ]
1. While some code runs under autocast, every op's floating inputs may be cast before it is computed: to the low
   precision for matrix products and convolutions, to float32 for what loses too much of it, and to the widest among
   them for ops that demand one dtype. All others take what comes. float64, integers and complex numbers stay.
2. A cast is an op and is recorded, so gradients come back in the dtype of what was cast.
3. Casts of leaves that want a gradient are kept until the outermost context ends: a weight that is used several times
   is cast once. A checkpointed region keeps its own, or its second run would not do the same.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np

from ..saved_tensors.state import current
from . import dispatch
from .ops.cast import to_dtype
from .ops.promotion import bfloat16
from .record import Record
from .variable import Variable

C = TypeVar("C", bound=Callable[..., Any])

_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
_CASTABLE = (_FLOAT16, bfloat16, _FLOAT32)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LOW_PRECISION = _names(
    "addmm convolution einsum linear matmul scaled_dot_product_attention scaled_dot_product_attention_dropped"
)
_LOSSES = _names(
    "binary_cross_entropy_with_logits cross_entropy ctc_loss huber_loss kl_div l1_loss linear_cross_entropy_loss"
    " mse_loss smooth_l1_loss soft_cross_entropy"
)
_ANY_FLOAT32 = _LOSSES | _names(
    "cdist cholesky_inverse cholesky_solve fft_c2c fft_c2r fft_r2c grid_sampler linalg_cholesky_ex linalg_det"
    " linalg_eig linalg_eigh linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv_ex linalg_lstsq"
    " linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr linalg_slogdet linalg_solve_ex"
    " linalg_solve_triangular linalg_svd linalg_svdvals polar prod view_as_complex"
)
# By the type of device, as in PyTorch: on a CPU most functions of one element are precise enough.
FLOAT32: dict[str, frozenset[str]] = {
    "cpu": _ANY_FLOAT32 | {"binary_cross_entropy"},
    "cuda": _ANY_FLOAT32
    | _names(
        "acos asin cosh cumprod cumsum erfinv exp expm1 linalg_vector_norm log log10 log1p log2 log_softmax"
        " native_group_norm native_layer_norm pow reciprocal rms_norm rsqrt sinh softmax softplus sum tan"
    ),
}
WIDEST = _names(
    "batch_norm_given linear_cross_entropy native_batch_norm native_group_norm native_layer_norm prelu rms_norm"
)
_DEFAULTS: dict[str, np.dtype[Any]] = {"cpu": bfloat16, "cuda": _FLOAT16}
_SUPPORTED = {"cpu": (bfloat16, _FLOAT16), "cuda": (bfloat16, _FLOAT16)}


class _Cache(dict[int, tuple[Any, int, Any]]):
    """Casts by the identity of what was cast: that itself, its version, and the result."""

    def cast(self, tensor: Any, dtype: Any) -> Any:
        found = self.get(id(tensor))
        if found is None or found[1] != tensor._storage.version or found[2]._array.dtype != dtype:
            found = self[id(tensor)] = (tensor, tensor._storage.version, to_dtype(tensor, dtype))
        return found[2]


class Casting:
    """What code runs under: the low precision of each type of device that has one, and the casts that are kept."""

    __slots__ = ("cache", "dtypes")

    def __init__(self, dtypes: Mapping[str, Any], cache: _Cache | None) -> None:
        self.dtypes = dtypes
        self.cache = cache


_current: ContextVar[Casting | None] = ContextVar("stowgrad_autocast", default=None)


def current_casting() -> Casting | None:
    """What this code runs under; for `casting`."""
    return _current.get()


@contextmanager
def casting(setting: Casting | None) -> Iterator[None]:
    """Let a block of code run under the setting of another, with casts of its own."""
    before = _current.get()
    _set(None if setting is None else Casting(setting.dtypes, None if setting.cache is None else _Cache()))
    try:
        yield
    finally:
        _set(before)


def _set(setting: Casting | None) -> None:
    _current.set(setting)
    if setting is not None:
        dispatch.cast_arguments = _cast_arguments  # it stays: asking the variable costs little


def _cast_arguments(op: Record, args: tuple[Any, ...]) -> tuple[Any, ...]:
    setting = _current.get()
    if setting is None or not setting.dtypes:
        return args
    inputs = args[: op.inputs]
    tensors = [value for value in inputs if isinstance(value, Variable)]
    if not tensors:
        return args
    kind = tensors[0]._storage.device.type
    low = setting.dtypes.get("cpu" if kind == "sim" else kind)
    if low is None:
        return args
    if op.name in LOW_PRECISION:
        target = low
    elif op.name in FLOAT32["cuda" if kind == "cuda" else "cpu"]:
        target = _FLOAT32
    elif op.name in WIDEST:
        found = {value._array.dtype for value in tensors}
        if len(found) < 2 or not found.issubset(_CASTABLE):
            return args
        target = _FLOAT32
    else:
        return args
    if any(value._array.dtype.itemsize == 8 and value._array.dtype.kind in "fc" for value in tensors):
        return args  # rule 1: float64 stays, and what it meets is for the op to promote or refuse
    return (*[_cast(value, target, setting.cache) for value in inputs], *args[op.inputs :])


def _cast(value: Any, dtype: Any, cache: _Cache | None) -> Any:
    if not isinstance(value, Variable) or value._array.dtype == dtype or value._array.dtype not in _CASTABLE:
        return value
    # A cast that was made without recording would cut the leaf off.
    if cache is not None and value._requires_grad and value._grad_fn is None and current().grad_enabled:
        return cache.cast(value, dtype)
    return to_dtype(value, dtype)


class autocast:  # noqa: N801  # PyTorch's name
    """Compute a block of code, or a function, in mixed precision.

    Args:
        device_type: ``"cpu"`` or ``"cuda"``: ops on other devices are left alone.
        dtype: bfloat16 or float16; by default bfloat16 on the CPU and float16 on CUDA devices.
        enabled: False to compute as outside of any autocast.
        cache_enabled: whether casts of weights are kept until the outermost context ends; they take memory, but are
            made once.

    Raises:
        RuntimeError: for a type of device that has no low precision.

    Wrap the forward pass and the loss, not ``backward``. Parameters stay in float32, and so do their gradients. Losses
    in float16 need `GradScaler`. Normalizations of 16 bits by weights in float32 give float32.

    >>> import stowgrad
    >>> layer = stowgrad.nn.Linear(3, 2)
    >>> with autocast("cpu"):
    ...     y = layer(stowgrad.ones(1, 3))
    >>> y.dtype, layer.weight.dtype
    (dtype(bfloat16), dtype('float32'))
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if device_type not in _DEFAULTS:
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype: np.dtype[Any] = _DEFAULTS[device_type] if dtype is None else np.dtype(dtype)
        if enabled and self.fast_dtype not in _SUPPORTED[device_type]:
            warnings.warn(
                f"In {device_type.upper()} autocast, but the target dtype {self.fast_dtype} is not supported. Disabling"
                " autocast. It supports bfloat16 and float16.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._cache_enabled = True if cache_enabled is None else cache_enabled
        self._before: list[Casting | None] = []

    def __enter__(self) -> autocast:
        before = _current.get()
        self._before.append(before)
        dtypes = dict(before.dtypes) if before is not None else {}
        dtypes.pop(self.device, None)
        if self._enabled:
            dtypes[self.device] = self.fast_dtype
        kept = before.cache if before is not None else None
        cache = (_Cache() if kept is None else kept) if self._cache_enabled else None
        _set(Casting(dtypes, cache))
        return self

    def __exit__(self, *exc_info: object) -> None:
        _set(self._before.pop())

    def __call__(self, function: C) -> C:
        """A function that runs in mixed precision."""

        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled, self._cache_enabled):
                return function(*args, **kwargs)

        return run  # type: ignore[return-value]  # of the same signature


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether code runs under autocast for a type of device."""
    setting = _current.get()
    return setting is not None and device_type in setting.dtypes


def get_autocast_dtype(device_type: str) -> np.dtype[Any]:
    """The low precision of a type of device.

    Raises:
        RuntimeError: for a type of device that has none.
    """
    if device_type not in _DEFAULTS:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
    setting = _current.get()
    found = None if setting is None else setting.dtypes.get(device_type)
    return _DEFAULTS[device_type] if found is None else found


def is_autocast_available(device_type: str) -> bool:
    """Whether a type of device has a low precision."""
    return device_type in _DEFAULTS
