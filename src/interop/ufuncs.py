"""What each ufunc of NumPy and SciPy becomes, with its methods ``reduce``, ``accumulate``, ``outer`` and ``at``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import linalg, special
from ..autograd import Tensor
from ..autograd import functions as F
from ..autograd.ops.promotion import result_dtype
from ..autograd.protocols import constant
from .convert import as_axes, met, number_or_tensor, owned, plain, requires_grad, tensor_of, tensors_in
from .dispatching import FUNCTIONS, deliver, label, refuse, refuse_out, with_numpy

__all__ = ["CONSTANT_UFUNCS", "SCIPY", "UFUNCS", "array_ufunc"]

_SAME_NAME = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "deg2rad",
    "divide",
    "exp",
    "exp2",
    "expm1",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "gcd",
    "greater",
    "greater_equal",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "lcm",
    "ldexp",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "rad2deg",
    "reciprocal",
    "remainder",
    "signbit",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

# NumPy's functions of values that are integers, bools, or constant but for jumps.
CONSTANT_UFUNCS = {"bitwise_count", "isnat", "spacing"}


def _matmul(x: Any, y: Any) -> Any:
    return F.matmul(*met(tensor_of(x), tensor_of(y)))


def _vecdot(x: Any, y: Any) -> Any:
    return linalg.vecdot(*met(tensor_of(x), tensor_of(y)))


def _matvec(x: Any, y: Any) -> Any:
    x, y = met(tensor_of(x), tensor_of(y))
    return F.matmul(x, y.unsqueeze(-1)).squeeze(-1)


def _vecmat(x: Any, y: Any) -> Any:
    x, y = met(tensor_of(x), tensor_of(y))
    return F.matmul(F.conj(x).unsqueeze(-2), y).squeeze(-2)


def _modf(x: Any) -> Any:
    whole = F.trunc(x)
    return x - whole, whole


def _heaviside(x: Any, values: Any) -> Any:
    """The step has no derivative; at zero the value is given, and has one."""
    return F.where(F.eq(x, 0), values, F.heaviside(x.detach(), values.detach()))


def _divmod(x: Any, y: Any) -> Any:
    return F.floor_divide(x, y), F.remainder(x, y)


UFUNCS: dict[np.ufunc, Callable[..., Any]] = {getattr(np, name): getattr(F, name) for name in _SAME_NAME}
UFUNCS.update(
    {
        np.absolute: F.abs,
        np.add: F.add,
        np.cbrt: special.cbrt,
        np.conjugate: F.conj,
        np.degrees: F.rad2deg,
        np.divmod: _divmod,
        np.equal: F.eq,
        np.fabs: F.abs,
        np.heaviside: _heaviside,
        np.invert: F.bitwise_not,
        np.left_shift: F.bitwise_left_shift,
        np.matmul: _matmul,
        np.modf: _modf,
        np.positive: F.positive,
        np.power: F.pow,
        np.radians: F.deg2rad,
        np.right_shift: F.bitwise_right_shift,
        np.rint: F.round,
        np.sign: F.sgn,
        np.vecdot: _vecdot,
    }
)

_ARRAYS_ONLY = {np.matmul, np.vecdot}
for _name, _handler in (("matvec", _matvec), ("vecmat", _vecmat)):
    if hasattr(np, _name):  # NumPy 2.2
        UFUNCS[getattr(np, _name)] = _handler
        _ARRAYS_ONLY.add(getattr(np, _name))

# By name: SciPy is only loaded by who uses it.
SCIPY: dict[str, Callable[..., Any]] = {
    "betaln": special.betaln,
    "digamma": F.digamma,
    "entr": special.entr,
    "erf": F.erf,
    "erfc": F.erfc,
    "erfcx": special.erfcx,
    "erfinv": F.erfinv,
    "exp2": F.exp2,
    "expit": F.sigmoid,
    "expm1": F.expm1,
    "gammainc": F.igamma,
    "gammaincc": F.igammac,
    "gammaln": F.lgamma,
    "i0": F.i0,
    "i0e": special.i0e,
    "i1": special.i1,
    "i1e": special.i1e,
    "j0": special.bessel_j0,
    "j1": special.bessel_j1,
    "k0": special.modified_bessel_k0,
    "k0e": special.scaled_modified_bessel_k0,
    "k1": special.modified_bessel_k1,
    "k1e": special.scaled_modified_bessel_k1,
    "log1p": F.log1p,
    "log_ndtr": special.log_ndtr,
    "logit": F.logit,
    "ndtr": special.ndtr,
    "ndtri": special.ndtri,
    "psi": F.digamma,
    "xlog1py": special.xlog1py,
    "xlogy": F.xlogy,
    "y0": special.bessel_y0,
    "y1": special.bessel_y1,
    "cbrt": special.cbrt,
}


def handler_of(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """What a ufunc becomes, or None."""
    handler = UFUNCS.get(ufunc)
    if handler is not None:
        return handler
    if ufunc.nin == 3 and ufunc.__name__ == "clip":  # what the method of arrays calls
        return F.clamp
    scipy_special = sys.modules.get("scipy.special")
    if scipy_special is not None and getattr(scipy_special, ufunc.__name__, None) is ufunc:
        return SCIPY.get(ufunc.__name__)
    return None


def array_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """What NumPy calls when there is a tensor among the operands (or the outputs) of a ufunc."""
    if not keywords and method == "__call__" and not any(_belongs_to_others(value) for value in inputs):
        return _call(ufunc, inputs, {})
    keywords = {key: value for key, value in keywords.items() if key not in ("casting", "order", "subok")}
    for value in (*inputs, *keywords.get("out", ())):
        if _belongs_to_others(value):
            return NotImplemented
    out = keywords.pop("out", None)
    if out is not None and method != "at":
        if requires_grad(inputs, keywords, out):
            refuse_out(label(ufunc))
        return deliver(label(ufunc), _compute(ufunc, method, inputs, keywords), out)
    return _compute(ufunc, method, inputs, keywords)


def _belongs_to_others(value: Any) -> bool:
    """Whether an operand has an opinion of its own about ufuncs."""
    if value is None or isinstance(value, Tensor | np.ndarray | np.generic | int | float | complex | list | tuple):
        return False
    return hasattr(type(value), "__array_ufunc__") and constant(value) is value


def _compute(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    if method == "__call__":
        return _call(ufunc, inputs, keywords)
    compute = _METHODS.get(method)
    result = NotImplemented if compute is None else compute(ufunc, *inputs, **keywords)
    if result is not NotImplemented:
        return result
    if requires_grad(inputs, keywords):
        refuse(f"{label(ufunc)}.{method}")
    return with_numpy(getattr(ufunc, method), inputs, keywords)


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    where, dtype = keywords.pop("where", True), keywords.pop("dtype", None)
    if where is not True:
        raise NotImplementedError(f"{label(ufunc)}: where= leaves elements without a value; use np.where on the result")
    handler = handler_of(ufunc)
    if handler is None:
        if ufunc.__name__ not in CONSTANT_UFUNCS and requires_grad(inputs):
            refuse(label(ufunc))
        keywords.update({} if dtype is None else {"dtype": dtype})
        return _numpy_call(ufunc, inputs, keywords)
    if keywords:
        raise NotImplementedError(f"{label(ufunc)}: {', '.join(keywords)} is not supported for tensors")
    operands = [tensor_of(x) if ufunc in _ARRAYS_ONLY else number_or_tensor(x) for x in inputs]
    if not any(isinstance(x, Tensor) for x in operands):  # the tensor is in out=
        operands = [tensor_of(x) for x in operands]
    if dtype is not None:
        operands = [tensor_of(x).to(np.dtype(dtype)) for x in operands]
    if len(operands) == 1:
        return handler(operands[0])
    return handler(*operands) if ufunc in _NUMBERS or ufunc in _ARRAYS_ONLY else handler(*_as_tensors(operands))


def _as_tensors(operands: list[Any]) -> list[Any]:
    """Numbers as tensors in the dtype of the others, for functions that take no numbers."""
    like = next(x for x in operands if isinstance(x, Tensor))
    return [x if isinstance(x, Tensor) else _number_beside(x, like) for x in operands]


def _number_beside(value: Any, like: Any) -> Any:
    return owned(np.array(value, result_dtype(like._array, value)), like)


_NUMBERS = {
    np.add,
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.divide,
    np.equal,
    np.float_power,
    np.floor_divide,
    np.greater,
    np.greater_equal,
    np.left_shift,
    np.less,
    np.less_equal,
    np.multiply,
    np.not_equal,
    np.power,
    np.remainder,
    np.right_shift,
    np.subtract,
}


def _numpy_call(ufunc: np.ufunc, inputs: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """A ufunc that isn't in the table, on the values of tensors."""
    like = next(iter(tensors_in(inputs)), None)
    results = ufunc(*plain(inputs), **keywords)
    if isinstance(results, tuple):
        return tuple(owned(result, like) for result in results)
    return owned(results, like)


# -- methods ---------------------------------------------------------------------------------------------------------


def _reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    function = _REDUCTIONS.get(ufunc)
    if function is None:
        return NotImplemented
    return FUNCTIONS.get(function, function)(
        array, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where
    )


def _logsumexp(array: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any) -> Any:
    x = tensor_of(array)
    x = x if dtype is None else x.to(np.dtype(dtype))
    if where is not True:
        x = F.where(tensor_of(where), x, -float("inf"))
    found = F.logsumexp(x, tuple(range(x.ndim)) if axis is None else as_axes(axis), keepdims)
    return found if initial is None else F.logaddexp(found, tensor_of(initial))


_REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_and: np.all,
    np.logical_or: np.any,
    np.logaddexp: _logsumexp,
}


def _accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    x = tensor_of(array)
    x = x if dtype is None else x.to(np.dtype(dtype))
    if ufunc is np.add:
        return F.cumsum(x, axis)
    if ufunc is np.multiply:
        return F.cumprod(x, axis)
    if ufunc is np.maximum:
        return F.cummax(x, axis)[0]
    if ufunc is np.minimum:
        return F.cummin(x, axis)[0]
    return F.logcumsumexp(x, axis) if ufunc is np.logaddexp else NotImplemented


def _outer(ufunc: np.ufunc, x: Any, y: Any, **keywords: Any) -> Any:
    x, y = tensor_of(x), tensor_of(y)
    return _call(ufunc, (x.reshape((*x.shape, *[1] * y.ndim)), y), keywords)


def _at(ufunc: np.ufunc, target: Any, indices: Any, *operands: Any) -> Any:
    """``target[indices] = ufunc(target[indices], operand)``, where an element may be named more than once."""
    if not isinstance(target, Tensor):
        if requires_grad(operands):
            refuse_out(f"{label(ufunc)}.at")
        ufunc.at(target, plain(indices), *plain(operands))
        return None
    if ufunc not in (np.add, np.subtract):
        raise NotImplementedError(f"{label(ufunc)}.at is not supported for tensors, only np.add.at and np.subtract.at")
    (values,) = [tensor_of(operand).to(target.dtype) for operand in operands]
    index = tuple(_index(part) for part in (indices if isinstance(indices, tuple) else (indices,)))
    target.index_put_(index, -values if ufunc is np.subtract else values, accumulate=True)
    return None


def _index(part: Any) -> Any:
    if isinstance(part, slice) or part is None or part is Ellipsis:
        raise NotImplementedError("ufunc.at: tensors take integers, arrays of them, and masks as indices here")
    return tensor_of(part)


_METHODS: dict[str, Callable[..., Any]] = {"reduce": _reduce, "accumulate": _accumulate, "outer": _outer, "at": _at}
