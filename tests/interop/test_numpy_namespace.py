"""Every function in NumPy's public namespaces: differentiated, passed through, or refused by name; never an array."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import stowgrad
from stowgrad.interop.convert import tensors_in
from stowgrad.interop.dispatching import CONSTANT, label
from stowgrad.interop.dispatching import FUNCTIONS as TABLE
from stowgrad.interop.ufuncs import CONSTANT_UFUNCS

from .numpy_cases import ROWS, V, draw

NAMESPACES: dict[str, ModuleType] = {"np": np, "np.linalg": np.linalg, "np.fft": np.fft}


def functions() -> Iterator[tuple[str, Any]]:
    for prefix, module in NAMESPACES.items():
        for name in sorted(dir(module)):
            function = getattr(module, name)
            if not name.startswith("_") and callable(function) and not isinstance(function, type):
                yield f"{prefix}.{name}", function


FUNCTIONS = dict(functions())


def replaced(value: Any, change: Any) -> Any:
    if isinstance(value, V):
        return change(value)
    if isinstance(value, tuple | list):
        return type(value)([replaced(part, change) for part in value])
    return value


def marked(value: Any) -> list[V]:
    found: list[V] = []
    replaced(value, found.append)
    return found


def flat(result: Any) -> list[Any]:
    """The arrays or tensors of a result, in order."""
    if isinstance(result, tuple | list):
        return [leaf for part in result for leaf in flat(part)]
    return [result]


def as_array(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, stowgrad.Tensor) else np.asarray(value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("number", range(len(ROWS)), ids=[f"{n}-{row[0].__name__}" for n, row in enumerate(ROWS)])
def test_values_and_gradients_are_those_of_numpy(number: int) -> None:
    _, call, args, keywords = ROWS[number]
    inputs = [*marked(args), *marked(list(keywords.values()))]
    arrays = {id(v): v.array for v in inputs}

    def expected() -> list[Any]:
        def plain(v: V) -> Any:
            return arrays[id(v)]

        keys = {key: replaced(value, plain) for key, value in keywords.items()}
        return [np.asarray(part) for part in flat(call(*replaced(args, plain), **keys))]

    leaves = {id(v): stowgrad.tensor(v.array, requires_grad=True) for v in inputs}
    keys = {key: replaced(value, lambda v: leaves[id(v)]) for key, value in keywords.items()}
    results = flat(call(*replaced(args, lambda v: leaves[id(v)]), **keys))

    reference = expected()
    assert len(results) == len(reference)
    for result, array in zip(results, reference, strict=True):
        assert not isinstance(result, np.ndarray | np.generic)
        assert as_array(result).shape == array.shape
        np.testing.assert_allclose(as_array(result), array, rtol=1e-9, atol=1e-9)

    weights = [np.random.default_rng(n).standard_normal((2, *array.shape)) for n, array in enumerate(reference)]

    def scalar(parts: list[Any], total: Any) -> Any:
        for part, (real, imaginary) in zip(parts, weights, strict=True):
            if isinstance(part, np.ndarray | stowgrad.Tensor) and part.dtype.kind in "fc":
                total = total + np.sum(np.real(part) * real)
                if part.dtype.kind == "c":
                    total = total + np.sum(np.imag(part) * imaginary)
        return total

    loss = scalar(results, 0.0)
    assert loss.requires_grad
    gradients = stowgrad.autograd.grad(loss, list(leaves.values()), allow_unused=True, materialize_grads=True)
    step = 1e-6
    for v, gradient in zip(inputs, gradients, strict=True):
        direction = np.random.default_rng(3).standard_normal(v.array.shape)
        if v.array.dtype.kind == "c":
            direction = direction + 1j * np.random.default_rng(4).standard_normal(v.array.shape)
        start = arrays[id(v)]
        arrays[id(v)] = start + step * direction
        above = scalar(expected(), 0.0)
        arrays[id(v)] = start - step * direction
        below = scalar(expected(), 0.0)
        arrays[id(v)] = start
        numeric = (above - below) / (2 * step)
        found = np.nansum(np.real(np.conj(gradient.numpy()) * direction))
        np.testing.assert_allclose(found, numeric, rtol=2e-5, atol=2e-6)


# -- the table -------------------------------------------------------------------------------------------------------

M = draw(3, 3)


def _t(array: Any = M) -> Any:
    return stowgrad.tensor(array, requires_grad=True)


# What comes out depends on shapes, or is integers, bools, text: a call each, with a tensor that requires grad.
PASSES: dict[str, Any] = {
    "np.all": lambda: np.all(_t()),
    "np.allclose": lambda: np.allclose(_t(), M),
    "np.any": lambda: np.any(_t()),
    "np.argmax": lambda: np.argmax(_t(), axis=0),
    "np.argmin": lambda: np.argmin(_t()),
    "np.argpartition": lambda: np.argpartition(_t(), 1),
    "np.argsort": lambda: np.argsort(_t()),
    "np.argwhere": lambda: np.argwhere(_t()),
    "np.array2string": lambda: np.array2string(_t()),
    "np.array_equal": lambda: np.array_equal(_t(), M),
    "np.array_equiv": lambda: np.array_equiv(_t(), M),
    "np.array_repr": lambda: np.array_repr(_t()),
    "np.array_str": lambda: np.array_str(_t()),
    "np.can_cast": lambda: np.can_cast(_t(M[0]).dtype, np.float64),
    "np.common_type": lambda: np.common_type(_t()),
    "np.count_nonzero": lambda: np.count_nonzero(_t()),
    "np.diag_indices_from": lambda: np.diag_indices_from(_t()),
    "np.digitize": lambda: np.digitize(_t(), [0.0, 1.0]),
    "np.einsum_path": lambda: np.einsum_path("ij,jk", _t(), _t()),
    "np.empty_like": lambda: np.empty_like(_t()),
    "np.equal": lambda: np.equal(_t(), M),
    "np.flatnonzero": lambda: np.flatnonzero(_t()),
    "np.frexp": lambda: np.frexp(_t())[1],
    "np.greater": lambda: np.greater(_t(), 0),
    "np.greater_equal": lambda: np.greater_equal(_t(), 0),
    "np.heaviside": lambda: np.heaviside(_t(), 0.5),
    "np.iscomplex": lambda: np.iscomplex(_t()),
    "np.iscomplexobj": lambda: np.iscomplexobj(_t()),
    "np.isclose": lambda: np.isclose(_t(), M),
    "np.isfinite": lambda: np.isfinite(_t()),
    "np.isin": lambda: np.isin(_t(), M),
    "np.isinf": lambda: np.isinf(_t()),
    "np.isnan": lambda: np.isnan(_t()),
    "np.isneginf": lambda: np.isneginf(_t()),
    "np.isposinf": lambda: np.isposinf(_t()),
    "np.isreal": lambda: np.isreal(_t()),
    "np.isrealobj": lambda: np.isrealobj(_t()),
    "np.isscalar": lambda: np.isscalar(_t()),
    "np.iterable": lambda: np.iterable(_t()),
    "np.less": lambda: np.less(_t(), 0),
    "np.less_equal": lambda: np.less_equal(_t(), 0),
    "np.lexsort": lambda: np.lexsort((_t(M[0]), _t(M[1]))),
    "np.linalg.matrix_rank": lambda: np.linalg.matrix_rank(_t()),
    "np.logical_and": lambda: np.logical_and(_t(), M),
    "np.logical_not": lambda: np.logical_not(_t()),
    "np.logical_or": lambda: np.logical_or(_t(), M),
    "np.logical_xor": lambda: np.logical_xor(_t(), M),
    "np.may_share_memory": lambda: np.may_share_memory(_t(), M),
    "np.min_scalar_type": lambda: np.min_scalar_type(_t()),
    "np.nanargmax": lambda: np.nanargmax(_t()),
    "np.nanargmin": lambda: np.nanargmin(_t()),
    "np.ndim": lambda: np.ndim(_t()),
    "np.nonzero": lambda: np.nonzero(_t()),
    "np.not_equal": lambda: np.not_equal(_t(), 0),
    "np.ones_like": lambda: np.ones_like(_t()),
    "np.result_type": lambda: np.result_type(_t(), np.float32),
    "np.searchsorted": lambda: np.searchsorted(_t(np.sort(M[0])), _t(M[1])),
    "np.shape": lambda: np.shape(_t()),
    "np.shares_memory": lambda: np.shares_memory(_t(), M),
    "np.signbit": lambda: np.signbit(_t()),
    "np.size": lambda: np.size(_t()),
    "np.spacing": lambda: np.spacing(_t()),
    "np.tril_indices_from": lambda: np.tril_indices_from(_t()),
    "np.triu_indices_from": lambda: np.triu_indices_from(_t()),
    "np.zeros_like": lambda: np.zeros_like(_t()),
}

# Not differentiable: a call each, which must raise and say so.
REFUSED: dict[str, Any] = {
    "np.array": lambda: np.array(_t()),
    "np.asanyarray": lambda: np.asanyarray(_t()),
    "np.asarray": lambda: np.asarray(_t()),
    "np.asarray_chkfinite": lambda: np.asarray_chkfinite(_t()),
    "np.ascontiguousarray": lambda: np.ascontiguousarray(_t()),
    "np.asfortranarray": lambda: np.asfortranarray(_t()),
    "np.asmatrix": lambda: np.asmatrix(_t()),
    "np.bitwise_and": lambda: np.bitwise_and(_t(), 1),
    "np.bitwise_count": lambda: np.bitwise_count(_t()),
    "np.bitwise_or": lambda: np.bitwise_or(_t(), 1),
    "np.bitwise_xor": lambda: np.bitwise_xor(_t(), 1),
    "np.bmat": lambda: np.bmat([[_t()]]),
    "np.busday_count": lambda: np.busday_count(_t(), _t()),
    "np.busday_offset": lambda: np.busday_offset(_t(), 0),
    "np.copyto": lambda: np.copyto(M.copy(), _t()),
    "np.datetime_as_string": lambda: np.datetime_as_string(_t()),
    "np.fill_diagonal": lambda: np.fill_diagonal(M.copy(), _t(M[0])),
    "np.from_dlpack": lambda: np.from_dlpack(_t()),
    "np.frompyfunc": lambda: np.frompyfunc(lambda x: x, 1, 1)(_t()),
    "np.gcd": lambda: np.gcd(_t(), 1),
    "np.histogram": lambda: np.histogram(_t()),
    "np.histogram2d": lambda: np.histogram2d(_t(M[0]), _t(M[1])),
    "np.histogram_bin_edges": lambda: np.histogram_bin_edges(_t()),
    "np.histogramdd": lambda: np.histogramdd(_t()),
    "np.invert": lambda: np.invert(_t()),
    "np.is_busday": lambda: np.is_busday(_t()),
    "np.isnat": lambda: np.isnat(_t()),
    "np.lcm": lambda: np.lcm(_t(), 1),
    "np.left_shift": lambda: np.left_shift(_t(), 1),
    "np.nextafter": lambda: np.nextafter(_t(), 1.0),
    "np.packbits": lambda: np.packbits(_t()),
    "np.place": lambda: np.place(M.copy(), M > 0, _t(M[0])),
    "np.put": lambda: np.put(M.copy(), [0], _t(M[0, :1])),
    "np.put_along_axis": lambda: np.put_along_axis(M.copy(), np.zeros((3, 1), int), _t(M[:, :1]), 1),
    "np.putmask": lambda: np.putmask(M.copy(), M > 0, _t()),
    "np.ravel_multi_index": lambda: np.ravel_multi_index((_t(), _t()), (3, 3)),
    "np.require": lambda: np.require(_t()),
    "np.right_shift": lambda: np.right_shift(_t(), 1),
    "np.save": lambda: np.save("never-written.npy", _t()),
    "np.savetxt": lambda: np.savetxt("never-written.txt", _t()),
    "np.savez": lambda: np.savez("never-written.npz", _t()),
    "np.savez_compressed": lambda: np.savez_compressed("never-written.npz", _t()),
    "np.unpackbits": lambda: np.unpackbits(_t()),
    "np.unravel_index": lambda: np.unravel_index(_t(), (3, 3)),
}

# They take no arrays of numbers: sizes, files, text, settings.
NOT_FOR_TENSORS = {
    "arange",
    "bartlett",
    "base_repr",
    "binary_repr",
    "blackman",
    "broadcast_shapes",
    "datetime_data",
    "diag_indices",
    "empty",
    "eye",
    "fft.fftfreq",
    "fft.rfftfreq",
    "fft.test",
    "format_float_positional",
    "format_float_scientific",
    "frombuffer",
    "fromfile",
    "fromfunction",
    "fromiter",
    "fromregex",
    "fromstring",
    "full",
    "genfromtxt",
    "get_include",
    "get_printoptions",
    "getbufsize",
    "geterr",
    "geterrcall",
    "hamming",
    "hanning",
    "identity",
    "indices",
    "info",
    "isdtype",
    "isfortran",
    "issubdtype",
    "ix_",
    "kaiser",
    "linalg.test",
    "load",
    "loadtxt",
    "mask_indices",
    "mintypecode",
    "nested_iters",
    "ones",
    "printoptions",
    "promote_types",
    "set_printoptions",
    "setbufsize",
    "seterr",
    "seterrcall",
    "show_config",
    "show_runtime",
    "test",
    "tri",
    "tril_indices",
    "triu_indices",
    "typename",
    "zeros",
}


def _same(name: str) -> set[str]:
    return {other for other, function in FUNCTIONS.items() if function is FUNCTIONS[name]}


def test_every_function_has_its_place() -> None:
    by_row = {name for name, function in FUNCTIONS.items() if any(function is row[0] for row in ROWS)}
    by_name = {alias for name in (*PASSES, *REFUSED) for alias in _same(name)}
    rest = {f"np.{name}" for name in NOT_FOR_TENSORS}
    assert set(FUNCTIONS) - by_row - by_name - rest == {"np.row_stack"} & set(FUNCTIONS)
    assert rest <= set(FUNCTIONS)
    assert not rest & (by_row | by_name)
    assert not set(REFUSED) & (by_row | set(PASSES))


@pytest.mark.parametrize("name", sorted(PASSES))
def test_what_passes_through_is_no_array_of_numpy(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = PASSES[name]()
    for leaf in flat(found):
        assert not isinstance(leaf, np.ndarray)
    assert not any(tensor.requires_grad for tensor in tensors_in(found) if tensor.dtype.kind != "f")


# What tells of the object itself: its memory, its text, that it is a tensor; and promotion, which is PyTorch's.
TELLING = {"np.array2string", "np.array_repr", "np.array_str", "np.empty_like", "np.result_type"}


@pytest.mark.parametrize("name", sorted(set(PASSES) - TELLING))
def test_what_passes_through_is_what_numpy_finds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = PASSES[name]()
        monkeypatch.setitem(globals(), "_t", lambda array=M: array.copy())
        expected = PASSES[name]()
    assert len(flat(found)) == len(flat(expected))
    for ours, theirs in zip(flat(found), flat(expected), strict=True):
        if isinstance(ours, stowgrad.Tensor):
            np.testing.assert_array_equal(ours.detach().numpy(), theirs)
        else:
            assert ours == theirs


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_not_differentiable_raises(name: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((TypeError, RuntimeError, BufferError, ValueError)) as caught:
            REFUSED[name]()
    assert not list(tmp_path.iterdir())
    if isinstance(caught.value, ValueError):
        assert "requires grad" in str(caught.value)


def test_constant_functions_are_in_the_table() -> None:
    listed = {id(FUNCTIONS[name]) for name in (*PASSES, *REFUSED)}
    assert [function.__name__ for function in CONSTANT if id(function) not in listed] == []
    assert {f"np.{name}" for name in CONSTANT_UFUNCS} <= set(PASSES) | set(REFUSED)


def names_of(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


@pytest.mark.parametrize("function", list(TABLE), ids=label)
def test_arguments_are_those_of_numpy(function: Any) -> None:
    handler = inspect.signature(TABLE[function]).parameters.values()
    kinds = {p.kind for p in handler}
    if inspect.Parameter.VAR_POSITIONAL not in kinds and function is not np.empty_like:
        assert names_of(TABLE[function])[: len(names_of(function))] == names_of(function)
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        keywords = {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
        assert keywords - {p.name for p in handler} <= {"out"}


def test_windows_and_other_functions_of_sizes_give_arrays() -> None:
    assert isinstance(np.hanning(3), np.ndarray)
