"""The makers of tensors in all their forms beside PyTorch's, and that bad input is refused alike."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

from .test_tensors import compare, described

LIBRARIES = (stowgrad, torch)
MADE: dict[str, Callable[[Any], Any]] = {
    "zeros": lambda lib: (lib.zeros(size=(2, 3)), lib.zeros(2, dtype=lib.bool), lib.zeros(np.int64(2)), lib.zeros(())),
    "ones": lambda lib: (lib.ones([2, 1]), lib.ones(2, requires_grad=True, layout=lib.strided, pin_memory=False)),
    "full": lambda lib: (
        lib.full((2,), True),
        lib.full((2,), 1j),
        lib.full(size=(2,), fill_value=3, dtype=lib.float16),
        lib.full((1,), lib.tensor(2.5)),
        lib.full((2,), 1.5, dtype=lib.bool),
    ),
    "out of zeros": lambda lib: (
        lib.zeros(2, out=lib.ones(2)),
        lib.arange(3, out=lib.ones(0)),
        lib.ones(2, out=lib.ones(3)),
    ),
    "like": lambda lib: [
        f(lib.tensor([1, 2], dtype=lib.int32), **keywords)
        for f in (lib.zeros_like, lib.ones_like)
        for keywords in ({}, {"dtype": lib.float64, "requires_grad": True}, {"memory_format": lib.preserve_format})
    ],
    "full_like": lambda lib: (lib.full_like(lib.zeros(2, dtype=lib.int32), 1.5), lib.full_like(lib.zeros(2), True)),
    "arange": lambda lib: (
        lib.arange(5, 2, -1.0),
        lib.arange(1, 2.5),
        lib.arange(lib.tensor(3)),
        lib.arange(start=1, end=3),
        lib.arange(end=3),
        lib.arange(0, 0),
        lib.arange(True),
        lib.arange(0, 5, 2, dtype=lib.float16),
        lib.arange(0, 5, 1.5, dtype=lib.int64),
        lib.arange(2**53, 2**53 + 3),
        lib.arange(0, 1, 0.1, dtype=lib.float64),
    ),
    "linspace": lambda lib: (
        lib.linspace(0, 1, 7, dtype=lib.float64),
        lib.linspace(1, 1, 1),
        lib.linspace(0, 10, 0),
        lib.linspace(lib.tensor(0.0), lib.tensor(3.0), 4),
        lib.linspace(-5, 5, 4, dtype=lib.int32),
        lib.linspace(start=0, end=1, steps=3),
        lib.linspace(0, 1j, 3, dtype=lib.complex128),
        lib.linspace(0, 5, 3, dtype=lib.int64),
    ),
    "logspace": lambda lib: (
        lib.logspace(0, 1, 3, base=2, dtype=lib.float64),
        lib.logspace(0, 3, 4, dtype=lib.int32),
        lib.logspace(0, 0, 1),
    ),
    "eye": lambda lib: (
        lib.eye(2),
        lib.eye(2, 3, dtype=lib.bool),
        lib.eye(3, 2),
        lib.eye(0),
        lib.eye(2, out=lib.ones(0)),
    ),
    "windows": lambda lib: [
        make(length, periodic, dtype=lib.float64).round(decimals=12)
        for make in (lib.bartlett_window, lib.blackman_window, lib.hamming_window, lib.hann_window, lib.kaiser_window)
        for length in (0, 1, 2, 7)
        for periodic in (True, False)
    ],
    "empty_strided": lambda lib: [
        (x.stride(), tuple(x.shape), x.dtype == lib.float64, x.fill_(2).tolist())
        for x in (
            lib.empty_strided((2, 3), (1, 2), dtype=lib.float64),
            lib.empty_strided((), (), dtype=lib.float64),
            lib.empty_strided((2, 2), (8, 3), dtype=lib.float64),
        )
    ],
    "functions of tensors": lambda lib: (
        lib.numel(lib.ones(2, 3)),
        lib.get_device(lib.ones(1)),
        lib.is_inference(lib.ones(1)),
        lib.detach(lib.ones(1, requires_grad=True)),
    ),
    "constants": lambda lib: (lib.pi, lib.e, lib.inf, lib.newaxis),
    "scalar_tensor": lambda lib: (lib.scalar_tensor(3), lib.scalar_tensor(True, dtype=lib.int8)),
    "frombuffer": lambda lib: (
        lib.frombuffer(bytearray(b"abcdefgh"), dtype=lib.int16, count=2, offset=2),
        lib.frombuffer(bytearray(b"abcd"), dtype=lib.uint8),
    ),
    "asarray": lambda lib: (
        lib.asarray([1, 2]),
        lib.asarray(np.arange(3), dtype=lib.float32),
        lib.asarray(lib.ones(2), requires_grad=True),
        lib.asarray(2.5),
    ),
    "tensor of lists": lambda lib: (
        lib.tensor([True, 1.5]),
        lib.tensor([1, 1j]),
        lib.tensor(range(3)),
        lib.tensor([np.float64(1)]),
        lib.tensor([np.float32(1), 2.0]),
        lib.tensor([np.array([1.0, 2.0])]),
        lib.tensor([lib.tensor(1), 2]),
        lib.tensor([[], []]),
        lib.tensor(bytearray(b"ab")),
        lib.tensor(-1, dtype=lib.uint8),
        lib.tensor([1.5, 2.5], dtype=lib.int64),
        lib.tensor(lib.ones(2)),
    ),
    "new": lambda lib: (
        lib.tensor([1, 2]).new_zeros(2, 3),
        lib.tensor([1, 2]).new_ones((2,), dtype=lib.float64),
        lib.tensor([1, 2]).new_full((2,), 1.5),
        lib.tensor([1.0, 2.0]).new_tensor([1, 2]),
        lib.tensor([1, 2]).new_empty((0, 2)),
        lib.tensor([1.0]).new_zeros(size=(1,), requires_grad=True),
    ),
    "casts": lambda lib: [
        getattr(lib.tensor([[1.75, -0.0], [2.0, 3.0]]), name)()
        for name in ["half", "float", "double", "short", "int", "long", "char", "bool", "cfloat", "cdouble", "bfloat16"]
        if name != "bfloat16"
    ],
    "to": lambda lib: (
        lib.zeros(2).to("cpu", lib.float64, False, True),
        lib.zeros(2).to(dtype=lib.float64, device="cpu", copy=True, memory_format=lib.preserve_format),
        lib.zeros(2).to(lib.ones(1, dtype=lib.int8)),
        lib.zeros(2).to(None),
        lib.zeros(2).to(lib.device("cpu")),
        lib.zeros(2).type(lib.int32),
        lib.zeros(2).type("torch.DoubleTensor"),
        lib.zeros(2, dtype=lib.int64).type_as(lib.ones(1)),
    ),
    "types": lambda lib: [
        lib.zeros(2, dtype=getattr(lib, name)).type() for name in ("float32", "int64", "bool", "half")
    ],
    "sizes of random": lambda lib: [
        (tuple(x.shape), str(x.dtype).removeprefix("torch."))
        for x in (
            lib.rand(()),
            lib.randn(2, dtype=lib.complex64),
            lib.rand(size=(2, 1), dtype=lib.float64),
            lib.randint(3, ()),
            lib.randint(1, 3, (2,), dtype=lib.uint8),
            lib.randint(low=1, high=3, size=(2,)),
            lib.randint(3, size=(2,)),
            lib.rand_like(lib.zeros(2, 3)),
            lib.randn_like(lib.zeros(2), dtype=lib.float64),
            lib.randint_like(lib.zeros(2), 3),
            lib.randperm(4, dtype=lib.int32),
        )
    ],
    "asked of dtypes": lambda lib: (
        lib.is_tensor(lib.ones(1)),
        lib.is_tensor(3),
        lib.is_floating_point(lib.ones(1)),
        lib.is_floating_point(lib.ones(1, dtype=lib.int8)),
        complex(lib.tensor(1j)),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_made(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compare(MADE[name])


REFUSED: dict[str, Callable[[Any], Any]] = {
    "too large for uint8": lambda lib: lib.tensor(300, dtype=lib.uint8),
    "too small for int8": lambda lib: lib.tensor([-200], dtype=lib.int8),
    "complex as float": lambda lib: lib.tensor([1j], dtype=lib.float32),
    "nan as int": lambda lib: lib.tensor(float("nan"), dtype=lib.int32),
    "nan filled as int": lambda lib: lib.full((2,), float("nan"), dtype=lib.int32),
    "None": lambda lib: lib.tensor(None),
    "list of None": lambda lib: lib.tensor([None]),
    "text": lambda lib: lib.tensor("a"),
    "list of texts": lambda lib: lib.tensor(["a"]),
    "dict": lambda lib: lib.tensor({}),
    "set": lambda lib: lib.tensor(set()),
    "array of texts": lambda lib: lib.tensor(np.array(["a"])),
    "ragged": lambda lib: lib.tensor([[1], [1, 2]]),
    "65 bits": lambda lib: lib.tensor(2**64),
    "64 bits": lambda lib: lib.tensor(2**63),
    "float size": lambda lib: lib.zeros(2.0),
    "bool size": lambda lib: lib.ones(True),
    "negative size": lambda lib: lib.zeros(-1),
    "two sequences": lambda lib: lib.zeros((2,), (3,)),
    "unknown keyword": lambda lib: lib.zeros(2, colour="red"),
    "integers with gradient": lambda lib: lib.zeros(2, requires_grad=True, dtype=lib.int64),
    "like a number": lambda lib: lib.ones_like(3),
    "another dtype in out": lambda lib: lib.zeros(2, out=lib.zeros(2), dtype=lib.float64),
    "step 0": lambda lib: lib.arange(0, 3, 0),
    "wrong direction": lambda lib: lib.arange(3, 0, 1),
    "range to nan": lambda lib: lib.arange(float("nan")),
    "complex range": lambda lib: lib.arange(1j),
    "range of bools": lambda lib: lib.arange(2, dtype=lib.bool),
    "no steps": lambda lib: lib.linspace(0, 1),
    "negative steps": lambda lib: lib.linspace(0, 1, -1),
    "bools at distances": lambda lib: lib.linspace(0, 1, 3, dtype=lib.bool),
    "negative eye": lambda lib: lib.eye(-1),
    "eye of a float": lambda lib: lib.eye(2.0),
    "empty buffer": lambda lib: lib.frombuffer(bytearray(b""), dtype=lib.int16),
    "part of an element": lambda lib: lib.frombuffer(bytearray(b"abc"), dtype=lib.int16),
    "offset behind": lambda lib: lib.frombuffer(bytearray(b"abc"), dtype=lib.int8, offset=5),
    "alias of a list": lambda lib: lib.asarray([1.0], copy=False),
    "alias in another dtype": lambda lib: lib.asarray(np.arange(3), copy=False, dtype=lib.float32),
    "scalar of a text": lambda lib: lib.scalar_tensor("a"),
    "from_numpy of a number": lambda lib: lib.from_numpy(3),
    "from_numpy of texts": lambda lib: lib.from_numpy(np.array(["a"])),
    "rand of ints": lambda lib: lib.rand(2, dtype=lib.int64),
    "no integers": lambda lib: lib.randint(0, (2,)),
    "integers beyond uint8": lambda lib: lib.randint(0, 300, (2,), dtype=lib.uint8),
    "negative permutation": lambda lib: lib.randperm(-1),
    "default of ints": lambda lib: lib.set_default_dtype(lib.int32),
    "finfo of ints": lambda lib: lib.finfo(lib.int32),
    "iinfo of floats": lambda lib: lib.iinfo(lib.float32),
    "iinfo of bools": lambda lib: lib.iinfo(lib.bool),
    "negative window": lambda lib: lib.hann_window(-1),
    "window of ints": lambda lib: lib.hann_window(3, dtype=lib.int64),
    "numel of a list": lambda lib: lib.numel([1]),
    "strides for other sizes": lambda lib: lib.empty_strided((2,), (1, 1)),
    "negative strides": lambda lib: lib.empty_strided((2,), (-1,)),
    "type of nothing": lambda lib: lib.ones(1).type("torch.StringTensor"),
    "type as a number": lambda lib: lib.ones(1).type_as(3),
    "deepcopy of a result": lambda lib: copy.deepcopy(lib.ones(1, requires_grad=True) * 2),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(Exception) as theirs:  # whatever it is, ours must be the same
        REFUSED[name](torch)
    with pytest.raises(theirs.type):
        REFUSED[name](stowgrad)


def test_the_default_device() -> None:
    try:
        stowgrad.set_default_device("sim:0")
        made = [stowgrad.zeros(2), stowgrad.tensor([1.0]), stowgrad.arange(3), stowgrad.rand(2), stowgrad.eye(2)]
        assert {str(tensor.device) for tensor in made} == {"sim:0"}
        assert stowgrad.zeros(2, device="cpu").device == stowgrad.device("cpu")
        assert stowgrad.ones_like(stowgrad.zeros(2, device="cpu")).device == stowgrad.device("cpu")
    finally:
        stowgrad.set_default_device(None)
    assert stowgrad.get_default_device() == stowgrad.device("cpu")


# -- copies -----------------------------------------------------------------------------------------------------------


def _through_pickle(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, _through_pickle])
def test_copies_of_tensors(how: Callable[[Any], Any]) -> None:
    def copies(lib: Any) -> Any:
        leaf = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        leaf.grad = lib.ones(2, 2)
        parameter = lib.nn.Parameter(lib.ones(2))
        made = [how(leaf), how(lib.tensor([1, 2]).t()), how(lib.ones((), dtype=lib.float64)), how(parameter)]
        return made, [tensor.grad is not None for tensor in made], [type(tensor).__name__ for tensor in made]

    compare(copies)


def test_whether_a_copy_shares_memory() -> None:
    for lib in LIBRARIES:
        x = lib.zeros(2)
        same, apart, other = copy.copy(x), copy.deepcopy(x), _through_pickle(x)
        x[0] = 5.0
        assert [float(y[0]) for y in (same, apart, other)] == [5.0, 0.0, 0.0]


def test_pickles_keep_attributes_and_modules() -> None:
    def kept(lib: Any) -> Any:
        parameter = lib.nn.Parameter(lib.ones(2), requires_grad=False)
        parameter.note = "here"
        module = lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.BatchNorm1d(3))
        state = {name: lib.ones_like(value) for name, value in module.state_dict().items()}
        module.load_state_dict(state)
        again = _through_pickle(module)
        outputs = [m(lib.tensor([[1.0, 2.0], [2.0, 2.0]])) for m in (again, copy.deepcopy(module))]
        return _through_pickle(parameter).note, [described(output.detach().round(decimals=5)) for output in outputs]

    compare(kept)


def test_a_pickle_is_counted_as_what_it_was() -> None:
    found = _through_pickle(stowgrad.nn.Parameter(stowgrad.ones(3)))
    assert (found._storage.category, found._storage.version) == ("parameter", 0)
    found = _through_pickle(stowgrad.from_numpy(np.ones(3)))
    assert (found._storage.category, found._storage.version) == ("activation", 0)
    meta = _through_pickle(stowgrad.ones(2, 3, device="meta"))
    assert (meta.device.type, meta.shape) == ("meta", (2, 3))
    assert _through_pickle(stowgrad.ones(2, device="sim:0")).device == stowgrad.device("sim:0")
