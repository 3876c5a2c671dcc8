"""Making tensors, writing into them and reading them beside PyTorch, and that bad input is refused in the same way."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad
from stowgrad.autograd import methods

from . import opinfo_operators, test_elementwise

LIBRARIES = (stowgrad, torch)
VALUES = np.array([[1.5, -2.0, 0.25], [3.0, 0.5, -1.0]])


def described(value: Any) -> Any:
    """A result in a form that is the same for both libraries."""
    if isinstance(value, stowgrad.Tensor | torch.Tensor):
        array = value.detach().numpy(force=True)
        return str(value.dtype).removeprefix("torch."), tuple(value.shape), value.requires_grad, array.tolist()
    if isinstance(value, tuple | list):
        return [described(part) for part in value]
    return type(value).__name__, value


def outcome(function: Callable[[Any], Any], lib: Any) -> Any:
    try:
        return described(function(lib))
    except Exception as error:  # noqa: BLE001  # whatever it is, the other library must raise the same
        return error


def compare(function: Callable[[Any], Any]) -> None:
    got, expected = (outcome(function, lib) for lib in LIBRARIES)
    if isinstance(expected, Exception) or isinstance(got, Exception):
        assert isinstance(got, type(expected)), f"stowgrad: {got!r}; PyTorch: {expected!r}"
    else:
        assert _alike(got, expected), f"stowgrad: {got!r}; PyTorch: {expected!r}"


def _alike(got: Any, expected: Any) -> bool:
    """Equal but for the last place of floats: PyTorch's vector forms of sqrt and tanh miss it on some processors."""
    if isinstance(expected, list | tuple) and isinstance(got, type(expected)):
        return len(got) == len(expected) and all(map(_alike, got, expected))
    if isinstance(expected, float) and isinstance(got, float):
        return got == expected or math.isclose(got, expected, rel_tol=4e-16)
    return type(got) is type(expected) and bool(got == expected)


# -- making ------------------------------------------------------------------------------------------------------------

MAKING: dict[str, Callable[[Any], Any]] = {
    "tensor of floats": lambda lib: lib.tensor([[1.5, 2.0], [3.0, 4.0]]),
    "tensor of ints": lambda lib: lib.tensor([1, 2]),
    "tensor of bools": lambda lib: lib.tensor([True, False]),
    "tensor of both": lambda lib: lib.tensor([1, 2.5]),
    "tensor of a number": lambda lib: lib.tensor(2.5),
    "tensor of a bool": lambda lib: lib.tensor(True),
    "tensor of nothing": lambda lib: lib.tensor([]),
    "tensor of an array": lambda lib: lib.tensor(VALUES),
    "tensor of a numpy number": lambda lib: lib.tensor(np.float64(2.5)),
    "tensor with dtype": lambda lib: lib.tensor([1, 2], dtype=lib.float64, requires_grad=True),
    "from_numpy": lambda lib: lib.from_numpy(VALUES.T),
    "as_tensor": lambda lib: lib.as_tensor([1, 2], dtype=lib.float32),
    "zeros": lambda lib: (
        lib.zeros(2, 3),
        lib.zeros((2,)),
        lib.zeros([]),
        lib.zeros(0, 2),
        lib.zeros(2, dtype=lib.long),
    ),
    "ones": lambda lib: (lib.ones(2, 3), lib.ones((2,), dtype=lib.bool), lib.ones(1, requires_grad=True)),
    "full": lambda lib: (
        lib.full((2,), 1.5),
        lib.full((2,), 3),
        lib.full([1], True),
        lib.full((), 2, dtype=lib.float64),
    ),
    "arange": lambda lib: (lib.arange(4), lib.arange(1, 4), lib.arange(1.0, 2.0, 0.25), lib.arange(4, 0, -2)),
    "like": lambda lib: (lib.zeros_like(lib.tensor([1, 2])), lib.ones_like(lib.tensor([1.5]), dtype=lib.float64)),
    "sizes of empty": lambda lib: [tuple(lib.empty(*size).shape) for size in ((2, 3), ((2, 3),), (0,))],
    "sizes of random": lambda lib: [tuple(f(2, 3).shape) for f in (lib.rand, lib.randn)],
    "randint": lambda lib: (lib.randint(3, 4, (2,)), lib.randint(1, (3,))),
    "randperm": lambda lib: lib.randperm(1),
    "dtypes": lambda lib: [
        str(getattr(lib, name)).removeprefix("torch.")
        for name in ("float", "half", "double", "short", "long", "int8", "uint8", "bfloat16")
        if name != "float"
    ],
}


@pytest.mark.parametrize("name", MAKING)
def test_making(name: str):
    compare(MAKING[name])


# -- reading -----------------------------------------------------------------------------------------------------------

READING: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "float": lambda x: float(x[0, 1]),
    "int": lambda x: int(x[1, 0]),
    "bool": lambda x: bool(x[1, 0] > 0),
    "index": lambda x: [10, 20, 30, 40][x[1, 0].long()],
    "format": lambda x: f"{x[0, 0]:.3f} {x[0, 1]}",
    "len": len,
    "numbers": lambda x: (x.numel(), x.nelement(), x.dim(), x.ndim, x.element_size(), x.nbytes),
    "size": lambda x: (tuple(x.size()), x.size(1), x.size(-1)),
    "stride": lambda x: (tuple(x.stride()), x.t().stride(0), tuple(x.expand(4, 2, 3).stride())),
    "layout": lambda x: (x.is_contiguous(), x.t().is_contiguous(), x[:1].t().is_contiguous()),
    "kind": lambda x: (x.is_floating_point(), x.long().is_floating_point(), x.bool().is_floating_point()),
    "in": lambda x: (bool((x == 0.5).any()), bool((x == 7).any())),
    "leaf": lambda x: (x.is_leaf, x.requires_grad, x.grad is None, x.grad_fn is None, x._version, x._is_view()),
    "numpy": lambda x: (x.numpy().shape, np.asarray(x).tolist(), (np.ones(3) + x.numpy()).tolist()),
    "repr": lambda x: (repr(x.long()), repr(x > 0), repr(x[1, :1].float().requires_grad_())),
    "hash": lambda x: hash(x) == id(x),
    "node names": lambda x: [
        y.grad_fn.name()
        for x in [x.clone().requires_grad_()]
        for y in (
            x + 1,
            x - 1,
            x * 2,
            x / 2,
            -x,
            x.exp(),
            x.sum(),
            x.mean(),
            x.T,
            x.view(-1),
            x.relu(),
            x.tanh(),
            x**2,
        )
    ],
}


@pytest.mark.parametrize("name", READING)
def test_reading(name: str):
    got, expected = (described(READING[name](lib.tensor(VALUES))) for lib in LIBRARIES)
    assert got == expected


# -- writing -----------------------------------------------------------------------------------------------------------


def _then(write: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """What a write leaves in a tensor and in another view of it, with what it returns and the version."""

    def run(lib: Any) -> Any:
        x = lib.tensor(VALUES)
        whole, part = x, x[:, 1:]
        with lib.no_grad():
            returned = write(lib, part)
        return whole, part, whole._version, returned is None or returned is part

    return run


WRITING: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda lib, x: x.add_(2),
    "add_ alpha": lambda lib, x: x.add_(lib.tensor([1.0, 2.0]), alpha=0.5),
    "sub_": lambda lib, x: x.sub_(x.clone(), alpha=2),
    "mul_": lambda lib, x: x.mul_(lib.tensor([[2.0], [3.0]])),
    "div_": lambda lib, x: x.div_(4),
    "copy_": lambda lib, x: x.copy_(lib.tensor([5, 6])),
    "fill_": lambda lib, x: x.fill_(1.25),
    "zero_": lambda lib, x: x.zero_(),
    "normal_": lambda lib, x: x.normal_(3.0, 0.0),
    "uniform_": lambda lib, x: x.uniform_(2.0, 2.0),
    "random_": lambda lib, x: x.random_(3, 4),
    "exponential_": lambda lib, x: x.exponential_(1e30).mul_(0),
    "cauchy_": lambda lib, x: x.cauchy_(2.0, 1e-30),
    "log_normal_": lambda lib, x: x.log_normal_(0.0, 1e-30),
    "geometric_": lambda lib, x: x.geometric_(1 - 1e-15),
    "__iadd__": lambda lib, x: x.__iadd__(1),
    "__isub__": lambda lib, x: x.__isub__(1),
    "__imul__": lambda lib, x: x.__imul__(0.5),
    "__itruediv__": lambda lib, x: x.__itruediv__(0.5),
    "__ipow__": lambda lib, x: x.__ipow__(2),
    "pow_": lambda lib, x: x.pow_(3),
    "neg_": lambda lib, x: x.neg_(),
    "abs_": lambda lib, x: x.abs_(),
    "square_": lambda lib, x: x.square_(),
    "sqrt_": lambda lib, x: x.abs_().sqrt_(),
    "reciprocal_": lambda lib, x: x.reciprocal_(),
    "exp_": lambda lib, x: x.exp_(),
    "log_": lambda lib, x: x.abs_().log_(),
    "sin_": lambda lib, x: x.sin_(),
    "cos_": lambda lib, x: x.cos_(),
    "tanh_": lambda lib, x: x.tanh_(),
    "sigmoid_": lambda lib, x: x.sigmoid_(),
    "relu_": lambda lib, x: x.relu_(),
    "masked_fill_": lambda lib, x: x.masked_fill_(x > 0, 2),
    "masked_fill_ row": lambda lib, x: x.masked_fill_(lib.tensor([True, False]), lib.tensor(7.0)),
    "fill_ tensor": lambda lib, x: x.fill_(lib.tensor(1.25)),
    "fill_ of a tensor with dimensions": lambda lib, x: x.fill_(lib.ones(1)),
    "masked_fill_ of a mask that does not fit": lambda lib, x: x.masked_fill_(lib.ones(3, 2, 2) > 0, 1.0),
    "exp_ of whole numbers": lambda lib, x: x.long().exp_(),
    "masked_fill_ of a wider kind": lambda lib, x: x.copy_(x.long().masked_fill_(x > 0, 2.5)),
    "setitem list": lambda lib, x: x.__setitem__([1, 0], lib.tensor([[8.0, 9.0], [1.0, 2.0]], dtype=lib.float64)),
    "setitem two": lambda lib, x: x.__setitem__((..., [1, 0]), x[0].clone()),
    "setitem of another dtype": lambda lib, x: x.__setitem__((..., [1, 0]), lib.tensor([8.0, 9.0])),
    "setitem that does not fit": lambda lib, x: x.__setitem__([1, 0], lib.ones(3, dtype=lib.float64)),
    "setitem": lambda lib, x: x.__setitem__(0, 7.0),
    "setitem tensor": lambda lib, x: x.__setitem__((slice(None), 0), lib.tensor([8.0, 9.0])),
    "setitem mask": lambda lib, x: x.__setitem__(x > 0, 0.0),
    "add_ of another dtype": lambda lib, x: x.add_(lib.tensor([1, 2])),
    "add_ that does not fit": lambda lib, x: x.add_(lib.ones(3, 2, 2)),
    "add_ of a wider kind": lambda lib, x: x.long().add_(0.5),
    "copy_ that does not fit": lambda lib, x: x.copy_(lib.ones(3)),
    "fill_diagonal_": lambda lib, x: x.fill_diagonal_(4.5),
    "resize_": lambda lib, x: x.resize_(3, 1),
    "resize_as_": lambda lib, x: x.resize_as_(lib.ones(2)),
    "add_ to an expanded tensor": lambda lib, x: x[:, :1].expand(2, 3).add_(1),
}


# In test_inplace_views.py: PyTorch's don't count as writes.
ELSEWHERE = {"apply_", "map_", "map2_"}


@pytest.mark.parametrize("name", WRITING)
def test_writing(name: str):
    compare(_then(WRITING[name]))


def test_every_method_that_writes_is_here_or_among_pytorchs_samples():
    owners = [getattr(methods, name) for name in methods.__all__]
    public = {name for owner in owners for name in vars(owner) if name.endswith("_") and not name.startswith("__")}
    operators = {name for name in vars(methods.Operators) if name.startswith("__i")} - {"__init__", "__invert__"}
    sampled = {f"{name}_" for name in opinfo_operators.covered_methods()}
    assert public <= set(WRITING) | sampled | ELSEWHERE
    assert operators <= set(WRITING) | {f"__i{name.rstrip('_')}__" for name in test_elementwise.OPERATORS}


# -- bad input ---------------------------------------------------------------------------------------------------------


def _used(lib: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    return y


def _changed(lib: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    h = x * 2
    y = (h * h).sum()
    with lib.no_grad():
        h.add_(1)
    return y


def _leaf(lib: Any, *sizes: int) -> Any:
    return lib.ones(*sizes or (3,), requires_grad=True)


BAD: dict[str, Callable[[Any], Any]] = {
    "shapes do not broadcast": lambda lib: lib.ones(2, 3) + lib.ones(2),
    "matmul sizes": lambda lib: lib.ones(2, 3) @ lib.ones(2, 3),
    "matmul of a number": lambda lib: lib.ones(2) @ lib.tensor(2.0),
    "matmul dtypes": lambda lib: lib.ones(2, 2) @ lib.ones(2, 2, dtype=lib.float64),
    "matmul batches": lambda lib: lib.ones(2, 3, 3) @ lib.ones(4, 3, 3),
    "linear sizes": lambda lib: lib.nn.functional.linear(lib.ones(2, 3), lib.ones(4, 2)),
    "linear dtypes": lambda lib: lib.nn.functional.linear(lib.ones(2, 3), lib.ones(4, 3, dtype=lib.float64)),
    "linear bias": lambda lib: lib.nn.functional.linear(lib.ones(2, 3), lib.ones(4, 3), lib.ones(3)),
    "linear of a list": lambda lib: lib.nn.functional.linear([1.0], lib.ones(1, 1)),
    "add of a text": lambda lib: lib.ones(2) + "2",
    "add of None": lambda lib: lib.ones(2) + None,
    "add of a list": lambda lib: lib.ones(2) + [1.0, 2.0],
    "sum dim": lambda lib: lib.ones(2).sum(1),
    "sum dim of 0-dim": lambda lib: lib.tensor(1.0).sum(1),
    "sum dim twice": lambda lib: lib.ones(2, 2).sum((0, -2)),
    "mean of ints": lambda lib: lib.ones(2, dtype=lib.long).mean(),
    "softmax dim": lambda lib: lib.ones(2).softmax(2),
    "argmax of nothing": lambda lib: lib.ones(0).argmax(),
    "amax of nothing": lambda lib: lib.ones(0, 2).amax(0),
    "transpose dim": lambda lib: lib.ones(2, 2).transpose(0, 2),
    "permute too few": lambda lib: lib.ones(2, 2).permute(0),
    "permute twice": lambda lib: lib.ones(2, 2).permute(0, 0),
    "permute dim": lambda lib: lib.ones(2, 2).permute(0, 2),
    "t of three": lambda lib: lib.ones(2, 2, 2).t(),
    "view size": lambda lib: lib.ones(6).view(4),
    "view two unknown": lambda lib: lib.ones(6).view(-1, -1),
    "view unknown of nothing": lambda lib: lib.ones(0, 3).view(-1, 0),
    "view negative": lambda lib: lib.ones(6).view(-2, -3),
    "view layout": lambda lib: lib.ones(2, 3).t().view(6),
    "reshape size": lambda lib: lib.ones(6).reshape(4, 2),
    "expand size": lambda lib: lib.ones(2, 3).expand(2, 4),
    "expand too few": lambda lib: lib.ones(2, 3).expand(3),
    "expand -1": lambda lib: lib.ones(3).expand(-1, 3),
    "unsqueeze dim": lambda lib: lib.ones(2).unsqueeze(3),
    "squeeze dim": lambda lib: lib.ones(2).squeeze(1),
    "flatten order": lambda lib: lib.ones(2, 2).flatten(1, 0),
    "flatten dim": lambda lib: lib.ones(2, 2).flatten(2),
    "narrow": lambda lib: lib.ones(3).narrow(0, 2, 2),
    "split sizes": lambda lib: lib.ones(3).split([1, 1]),
    "split size": lambda lib: lib.ones(3).split(-1),
    "chunk": lambda lib: lib.ones(3).chunk(0),
    "unbind dim": lambda lib: lib.ones(3).unbind(1),
    "cat of nothing": lambda lib: lib.cat([]),
    "cat sizes": lambda lib: lib.cat([lib.ones(2, 3), lib.ones(2, 2)]),
    "cat dim": lambda lib: lib.cat([lib.ones(2)], 1),
    "cat of 0-dim": lambda lib: lib.cat([lib.tensor(1.0)]),
    "cat of a tensor": lambda lib: lib.cat([lib.ones(2), 1.0]),
    "stack sizes": lambda lib: lib.stack([lib.ones(2), lib.ones(3)]),
    "stack of nothing": lambda lib: lib.stack([]),
    "where condition": lambda lib: lib.where(lib.ones(2), lib.ones(2), lib.ones(2)),
    "index": lambda lib: lib.ones(2)[2],
    "index negative": lambda lib: lib.ones(2)[-3],
    "index too many": lambda lib: lib.ones(2)[0, 0],
    "index of 0-dim": lambda lib: lib.tensor(1.0)[0],
    "index by a float": lambda lib: lib.ones(2)[0.5],
    "index by floats": lambda lib: lib.ones(2)[lib.ones(2)],
    "index tensor": lambda lib: lib.ones(2)[lib.tensor([0, 2])],
    "index mask": lambda lib: lib.ones(2)[lib.tensor([True, False, True])],
    "step": lambda lib: lib.ones(4)[::0],
    "setitem": lambda lib: lib.ones(2).__setitem__(2, 1.0),
    "setitem size": lambda lib: lib.ones(2).__setitem__(slice(0, 2), lib.ones(3)),
    "len of 0-dim": lambda lib: len(lib.tensor(1.0)),
    "iteration over 0-dim": lambda lib: list(lib.tensor(1.0)),
    "item of two": lambda lib: lib.ones(2).item(),
    "bool of two": lambda lib: bool(lib.ones(2)),
    "bool of none": lambda lib: bool(lib.ones(0)),
    "float of two": lambda lib: float(lib.ones(2)),
    "index of a float": lambda lib: [1][lib.tensor(0.5)],
    "numpy of a leaf": lambda lib: _leaf(lib).numpy(),
    "array of a leaf": lambda lib: np.asarray(_leaf(lib)),
    "tensor of a text": lambda lib: lib.tensor("a"),
    "ragged tensor": lambda lib: lib.tensor([[1.0], [1.0, 2.0]]),
    "from_numpy of a list": lambda lib: lib.from_numpy([1.0]),
    "from_numpy of texts": lambda lib: lib.from_numpy(np.array(["a"])),
    "zeros negative": lambda lib: lib.zeros(-1),
    "zeros of a float": lambda lib: lib.zeros(1.5),
    "zeros of a dtype": lambda lib: lib.zeros(2, dtype="no such dtype"),
    "no such device": lambda lib: lib.zeros(2, device="nowhere"),
    "arange step": lambda lib: lib.arange(0, 3, -1),
    "arange no step": lambda lib: lib.arange(0, 3, 0),
    "randint empty range": lambda lib: lib.randint(3, 3, (2,)),
    "int requires_grad": lambda lib: lib.tensor([1], requires_grad=True),
    "int requires_grad_": lambda lib: lib.tensor([1]).requires_grad_(),
    "bool ones requires_grad": lambda lib: lib.ones(2, dtype=lib.bool, requires_grad=True),
    "requires_grad_ of a non-leaf": lambda lib: (_leaf(lib) * 2).requires_grad_(False),
    "backward of a vector": lambda lib: (_leaf(lib) * 2).backward(),
    "backward of a constant": lambda lib: lib.tensor(1.0).backward(),
    "backward twice": lambda lib: _used(lib).backward(),
    "grad after backward": lambda lib: lib.autograd.grad(_used(lib), _leaf(lib)),
    "backward after a change": lambda lib: _changed(lib).backward(),
    "backward gradient shape": lambda lib: (_leaf(lib) * 2).backward(lib.ones(2)),
    "backward gradient type": lambda lib: (_leaf(lib) * 2).backward([1.0]),
    "backward inputs empty": lambda lib: (_leaf(lib) * 2).sum().backward(inputs=[]),
    "grad of what was not used": lambda lib: lib.autograd.grad(_leaf(lib).sum(), _leaf(lib)),
    "grad of a constant": lambda lib: lib.autograd.grad(_leaf(lib).sum(), lib.ones(3)),
    "gradient type": lambda lib: setattr(_leaf(lib), "grad", 1.0),
    "gradient shape": lambda lib: setattr(_leaf(lib), "grad", lib.ones(2)),
    "gradient dtype": lambda lib: setattr(_leaf(lib), "grad", lib.ones(3, dtype=lib.float64)),
    "hook on a constant": lambda lib: lib.ones(2).register_hook(print),
    "retain_grad of a constant": lambda lib: lib.ones(2).retain_grad(),
    "in place on a leaf": lambda lib: _leaf(lib).add_(1),
    "in place on a view of a leaf": lambda lib: _leaf(lib)[:1].mul_(2),
    "setitem on a leaf": lambda lib: _leaf(lib).__setitem__(0, 1.0),
    "fill_ on a leaf": lambda lib: _leaf(lib).fill_(1),
    "copy.deepcopy of a non-leaf": lambda lib: __import__("copy").deepcopy(_leaf(lib) * 2),
    "layer_norm shape": lambda lib: lib.nn.functional.layer_norm(lib.ones(2, 3), (2,)),
    "layer_norm weight": lambda lib: lib.nn.functional.layer_norm(lib.ones(2, 3), (3,), lib.ones(2)),
    "layer_norm shape type": lambda lib: lib.nn.functional.layer_norm(lib.ones(2, 3), 3),
    "embedding index": lambda lib: lib.nn.functional.embedding(lib.tensor([3]), lib.ones(3, 2)),
    "embedding negative index": lambda lib: lib.nn.functional.embedding(lib.tensor([-1]), lib.ones(3, 2)),
    "embedding by floats": lambda lib: lib.nn.functional.embedding(lib.ones(1), lib.ones(3, 2)),
    "embedding of a vector": lambda lib: lib.nn.functional.embedding(lib.tensor([0]), lib.ones(3)),
    "gelu approximate": lambda lib: lib.nn.functional.gelu(lib.ones(2), approximate="exactly"),
    "dropout probability": lambda lib: lib.nn.functional.dropout(lib.ones(2), 1.5),
    "dropout of ints": lambda lib: lib.nn.functional.dropout(lib.ones(2, dtype=lib.long), 0.5),
    "cross_entropy rows": lambda lib: lib.nn.functional.cross_entropy(lib.ones(3, 2), lib.tensor([0, 1])),
    "cross_entropy class": lambda lib: lib.nn.functional.cross_entropy(lib.ones(1, 2), lib.tensor([2])),
    "cross_entropy negative class": lambda lib: lib.nn.functional.cross_entropy(lib.ones(1, 2), lib.tensor([-1])),
    "cross_entropy targets": lambda lib: lib.nn.functional.cross_entropy(lib.ones(2, 2), lib.ones(2)),
    "cross_entropy reduction": lambda lib: lib.nn.functional.cross_entropy(
        lib.ones(1, 2), lib.tensor([0]), reduction="most"
    ),
    "mse_loss shapes": lambda lib: lib.nn.functional.mse_loss(lib.ones(2), lib.ones(3)),
    "attention shapes": lambda lib: lib.nn.functional.scaled_dot_product_attention(
        lib.ones(1, 2, 3, 4), lib.ones(1, 2, 3, 5), lib.ones(1, 2, 3, 4)
    ),
    "attention dtypes": lambda lib: lib.nn.functional.scaled_dot_product_attention(
        lib.ones(1, 2, 3, 4), lib.ones(1, 2, 3, 4), lib.ones(1, 2, 3, 4, dtype=lib.float64)
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_raises_the_same_type(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mse_loss warns before it fails
        expected = outcome(BAD[name], torch)
        got = outcome(BAD[name], stowgrad)
    assert isinstance(expected, Exception), "PyTorch accepts this"
    assert isinstance(got, type(expected)), f"stowgrad: {got!r}; PyTorch: {expected!r}"
    assert str(got)
