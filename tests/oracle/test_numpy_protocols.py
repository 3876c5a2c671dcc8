"""NumPy's protocols beside PyTorch: memory handed to and fro, dtypes of results, the names of arguments."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad.memory import memory_allocated

pytestmark = pytest.mark.oracle

DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_goes_to_pytorch_and_comes_back(dtype: str) -> None:
    ours = stowgrad.tensor(np.arange(6).reshape(2, 3).astype(dtype))
    theirs = torch.from_dlpack(ours.t())
    assert theirs.tolist() == ours.t().tolist()
    back = stowgrad.from_dlpack(theirs)
    assert back.dtype == ours.dtype
    assert back.stride() == ours.t().stride()
    theirs.fill_(1)
    assert ours.tolist() == back.t().tolist() == torch.ones(2, 3, dtype=theirs.dtype).tolist()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"])
def test_narrow_floats_go_to_pytorch_and_come_back(name: str) -> None:
    values = [[1.0, 2.0, 0.5], [0.25, 3.0, 0.0]]
    ours, theirs = (lib.tensor(values).to(getattr(lib, name)) for lib in (stowgrad, torch))
    there = torch.from_dlpack(ours)
    assert there.dtype == theirs.dtype
    assert there.float().tolist() == values
    assert there.data_ptr() == ours.data_ptr()
    here = stowgrad.from_dlpack(theirs.t())
    assert here.dtype == ours.dtype
    assert here.stride() == (1, 3)
    assert here.float().t().tolist() == values
    here.zero_()
    assert theirs.float().sum() == 0


def test_capsules_of_the_former_kind() -> None:
    ours, theirs = (lib.arange(3.0) for lib in (stowgrad, torch))
    assert torch.utils.dlpack.from_dlpack(stowgrad.utils.dlpack.to_dlpack(ours)).add_(1).tolist() == [1.0, 2.0, 3.0]
    assert stowgrad.from_dlpack(torch.to_dlpack(theirs)).add_(1).tolist() == [1.0, 2.0, 3.0]
    assert ours.tolist() == theirs.tolist() == [1.0, 2.0, 3.0]
    for kind in stowgrad.utils.dlpack.DLDeviceType:
        assert torch.utils.dlpack.DLDeviceType[kind.name] == kind


def _twice(lib: Any) -> None:
    capsule = lib.zeros(2).__dlpack__()
    lib.from_dlpack(capsule)
    lib.from_dlpack(capsule)


EXCHANGES: dict[str, Any] = {
    "a leaf": lambda lib: lib.from_dlpack(lib.zeros(2, requires_grad=True)),
    "a history": lambda lib: (lib.zeros(2, requires_grad=True) * 2).__dlpack__(),
    "no data": lambda lib: lib.zeros(2, device="meta").__dlpack__(),
    "a list": lambda lib: lib.from_dlpack([1.0]),
    "a capsule, twice": _twice,
    "a stream that is none": lambda lib: lib.zeros(2).__dlpack__(stream="x"),
    "no stream": lambda lib: lib.zeros(2).__dlpack__(stream=-1),
    "the same device": lambda lib: lib.zeros(2).__dlpack__(dl_device=(1, 0)),
    "no such device": lambda lib: lib.zeros(2).__dlpack__(dl_device=(99, 0)),
    "another device, no copy": lambda lib: lib.zeros(2).__dlpack__(dl_device=(2, 0), copy=False),
    "text": lambda lib: lib.from_dlpack(np.array(["text"])),
    "long doubles": lambda lib: lib.from_dlpack(np.zeros(2, np.longdouble)),
    "the other byte order": lambda lib: lib.from_dlpack(np.zeros(2, np.dtype(float).newbyteorder("S"))),
    "a copy": lambda lib: lib.from_dlpack(np.zeros(2), copy=True, device="cpu"),
}


@pytest.mark.parametrize("name", EXCHANGES)
def test_what_is_refused_and_what_is_not(name: str) -> None:
    kinds = []
    for lib in (stowgrad, torch):
        try:
            EXCHANGES[name](lib)
            kinds.append(None)
        except Exception as error:  # noqa: BLE001  # its class is what is compared
            kinds.append(type(error))
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("size", [8, 1 << 18])
def test_memory_that_pytorch_holds_is_counted_and_not_reused(size: int) -> None:
    before = memory_allocated()
    ours = stowgrad.full((size,), 3.0)
    theirs = torch.from_dlpack(ours)
    nbytes = ours.nbytes
    del ours
    assert memory_allocated() - before == nbytes
    others = [stowgrad.zeros(size) for _ in range(3)]
    assert bool((theirs == 3.0).all())
    del others, theirs
    assert memory_allocated() == before


def test_errors_of_the_protocols() -> None:
    for library in (stowgrad, torch):
        leaf: Any = library.tensor([1.0], requires_grad=True)
        with pytest.raises(RuntimeError, match="requires grad"):
            np.asarray(leaf)
        with pytest.raises(BufferError):
            leaf.__dlpack__()
        with pytest.raises(BufferError):
            np.from_dlpack(leaf)
        assert library.tensor([1.0]).__dlpack_device__() == (1, 0)
        assert not hasattr(library.tensor([1.0]), "__cuda_array_interface__")


UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "power": "pow",
    "maximum": "maximum",
    "floor_divide": "floor_divide",
    "less": "lt",
    "hypot": "hypot",
    "arctan2": "atan2",
    "logaddexp": "logaddexp",
    "bitwise_and": "bitwise_and",
    "logical_or": "logical_or",
}


def outcome(function: Any, *operands: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return str(function(*operands).dtype).removeprefix("torch.")
        except (RuntimeError, TypeError, NotImplementedError):
            return "refused"


@pytest.mark.parametrize("name", UFUNCS)
def test_dtypes_of_ufuncs_are_pytorchs(name: str) -> None:
    wrong = []
    for left in DTYPES:
        for right in DTYPES:
            values = np.ones(2, left), np.ones(2, right)
            ours = outcome(getattr(np, name), stowgrad.from_numpy(values[0]), values[1])
            turned = outcome(getattr(np, name), values[0], stowgrad.from_numpy(values[1]))
            theirs = outcome(getattr(torch, UFUNCS[name]), *map(torch.from_numpy, values))
            if not ours == turned == theirs:
                wrong.append((left, right, ours, turned, theirs))
    assert wrong == []


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["exp", "sqrt", "tanh", "sign", "floor", "square", "isnan", "log1p"])
def test_dtypes_of_ufuncs_of_one_operand(name: str, dtype: str) -> None:
    values = np.ones(2, dtype)
    ours = outcome(getattr(np, name), stowgrad.from_numpy(values))
    theirs = outcome({"sign": torch.sgn}.get(name, getattr(torch, name)), torch.from_numpy(values))
    assert ours == theirs


NAMED = [
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "amax",
    "amin",
    "all",
    "any",
    "argmax",
    "argmin",
    "std",
    "var",
    "logsumexp",
    "cumsum",
    "cumprod",
    "nansum",
]


@pytest.mark.parametrize("name", NAMED)
def test_methods_take_numpys_names(name: str) -> None:
    values = np.random.default_rng(1).standard_normal((2, 3))
    keywords = {"axis": 1} if name.startswith("cum") else {"axis": 1, "keepdims": True}
    ours = getattr(stowgrad.from_numpy(values), name)(**keywords)
    theirs = getattr(torch.from_numpy(values), name)(**keywords)
    for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (ours, theirs)], strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy())
