"""Forms of views that change the tensor itself, and functions that write in place, beside PyTorch."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import stowgrad

from . import programs

pytestmark = pytest.mark.oracle

VALUES = np.arange(1.0, 13.0).reshape(3, 1, 4)


def weights(lib: Any, x: Any) -> Any:
    """A constant of the shape of a tensor, whose elements all differ."""
    return lib.arange(1.0, 1 + x.numel(), dtype=lib.float64).reshape(tuple(x.shape))


def of_result(lib: Any, change: Callable[[Any, Any], Any]) -> list[Any]:
    """What a change makes of a computed tensor: values, version, gradient."""
    leaf = lib.tensor(VALUES, requires_grad=True)
    h = leaf * leaf
    assert change(lib, h) is h
    (h * weights(lib, h)).sum().backward()
    return [
        h.detach().numpy(),
        h._version,
        leaf.grad.numpy(),
        [n for n, size in zip(h.stride(), h.shape, strict=True) if size > 1],
    ]


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "transpose_": lambda lib, h: h.transpose_(0, -1),
    "swapaxes_": lambda lib, h: h.swapaxes_(0, 1),
    "swapdims_": lambda lib, h: h.swapdims_(1, 2),
    "squeeze_": lambda lib, h: h.squeeze_(),
    "squeeze_ of one": lambda lib, h: h.squeeze_(1),
    "squeeze_ of none": lambda lib, h: h.squeeze_(0),
    "squeeze_ of some": lambda lib, h: h.squeeze_((0, 1)),
    "unsqueeze_": lambda lib, h: h.unsqueeze_(-1),
    "t_": lambda lib, h: h.squeeze_().t_(),
    "as_strided_": lambda lib, h: h.as_strided_((2, 2), (5, 1), 1),
    "top level": lambda lib, h: lib.as_strided_(h, (3,), (2,)),
    "fill_diagonal_": lambda lib, h: h.squeeze_(1).fill_diagonal_(2.5),
    "fill_diagonal_ wrapped": lambda lib, h: h.squeeze_(1).t_().fill_diagonal_(2.5, True),
    "then a write": lambda lib, h: h.transpose_(0, 2).mul_(3.0),
    "write, look, write": lambda lib, h: h.mul_(2.0).squeeze_().t_().add_(1.0).exp_(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_computed_tensor(name: str) -> None:
    for ours, theirs in zip(of_result(stowgrad, CHANGES[name]), of_result(torch, CHANGES[name]), strict=True):
        np.testing.assert_allclose(ours, theirs)


def _view_looks_otherwise(lib: Any, h: Any) -> list[Any]:
    view = h[:2]
    view.transpose_(0, 2)
    return [view]


def _write_through_it(lib: Any, h: Any) -> list[Any]:
    view = h[:2]
    view.squeeze_().t_()
    other = h[1:]
    view.mul_(weights(lib, view))
    return [view, other, h]


def _base_looks_otherwise(lib: Any, h: Any) -> list[Any]:
    view = h[:2]
    h.transpose_(0, 2)
    return [view, h]


def _view_of_a_base_that_does_is_written(lib: Any, h: Any) -> list[Any]:
    view = h[:2, 0]
    again = view[:, 1:]
    h.squeeze_(1).t_()
    again.mul_(weights(lib, again))
    return [view, again, h]


def _base_that_does_is_written(lib: Any, h: Any) -> list[Any]:
    view = h[1:]
    h.unsqueeze_(0).mul_(2.0)
    return [view, h]


def _restrided_view(lib: Any, h: Any) -> list[Any]:
    view = h[0]
    view.as_strided_((3, 2), (2, 1), 4)  # more of the base than it looked at
    view.mul_(weights(lib, view))
    return [view, h]


def _restrided_base(lib: Any, h: Any) -> list[Any]:
    view = h[1:]
    h.as_strided_((2, 6), (6, 1))
    view.mul_(weights(lib, view))
    return [view, h]


def of_views(lib: Any, change: Callable[[Any, Any], list[Any]]) -> list[Any]:
    leaf = lib.tensor(VALUES, requires_grad=True)
    found = change(lib, leaf * leaf)
    total = sum((x * weights(lib, x)).sum() for x in found)
    return [*[x.detach().numpy() for x in found], lib.autograd.grad(total, [leaf])[0].numpy()]


@pytest.mark.parametrize(
    "change",
    [
        _view_looks_otherwise,
        _write_through_it,
        _base_looks_otherwise,
        _view_of_a_base_that_does_is_written,
        _base_that_does_is_written,
        _restrided_view,
        _restrided_base,
    ],
)
def test_views(change: Callable[[Any, Any], list[Any]]) -> None:
    for ours, theirs in zip(of_views(stowgrad, change), of_views(torch, change), strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize("seed", range(60))
def test_a_random_program(seed: int) -> None:
    programs.run(random.Random(seed), programs.LOOKS, 9, f"seed {seed}")


# -- resizing, errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(2, 3), (12,), (2, 2, 2), (), (0,), (5, 4), (3, 1, 4)])
def test_resized(size: tuple[int, ...]) -> None:
    results = []
    for lib in (stowgrad, torch):
        x = lib.tensor(VALUES).transpose(0, 2)  # a view of the storage in another order
        assert x.resize_(size) is x
        results.append((x.stride(), x._version, x.reshape(-1)[:12].numpy()))
        y = lib.zeros(2).resize_as_(x)
        assert tuple(y.shape) == size
    assert results[0][:2] == results[1][:2]
    np.testing.assert_allclose(results[0][2], results[1][2])


def refused(lib: Any, attempt: Callable[[Any], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            attempt(lib)
        except Exception as error:  # noqa: BLE001  # its class is what is compared
            return type(error)
    return None


def _leaf(lib: Any) -> Any:
    return lib.zeros(2, 3, requires_grad=True)


def _stale(lib: Any) -> Any:
    h = _leaf(lib) * 2
    y = h * h
    h.t_()
    y.sum().backward()


def _of_inference(lib: Any) -> Any:
    with lib.inference_mode():
        x = lib.zeros(2, 3)
    x.t_()


def _without_recording(lib: Any) -> Any:
    leaf = _leaf(lib)
    with lib.no_grad():
        leaf.t_()
        leaf.unsqueeze_(0)
        leaf[0].unsqueeze_(0)
    assert leaf.is_leaf
    assert leaf.requires_grad
    assert tuple(leaf.shape) == (1, 3, 2)
    (leaf * 2).sum().backward()
    assert tuple(leaf.grad.shape) == (1, 3, 2)


ATTEMPTS: dict[str, Callable[[Any], Any]] = {
    "a leaf": lambda lib: _leaf(lib).t_(),
    "a view of a leaf": lambda lib: _leaf(lib)[0].unsqueeze_(0),
    "one of several views": lambda lib: (_leaf(lib) * 1).unbind(0)[0].unsqueeze_(0),
    "too many dimensions": lambda lib: lib.zeros(2, 3, 4).t_(),
    "no such dimension": lambda lib: lib.zeros(2).unsqueeze_(5),
    "no such dimensions": lambda lib: lib.zeros(2).transpose_(0, 1),
    "out of the storage": lambda lib: lib.zeros(4).as_strided_((3, 3), (1, 2)),
    "elements in one place": lambda lib: lib.zeros(2, 1).expand(2, 3).t_(),
    "saved before": _stale,
    "of inference mode": _of_inference,
    "without recording": _without_recording,
    "resize a leaf": lambda lib: _leaf(lib).resize_(2),
    "resize what was computed": lambda lib: (_leaf(lib) * 1).resize_(2),
    "resize without recording": lambda lib: lib.no_grad()(lambda: _leaf(lib).resize_(2))(),
    "resize an array": lambda lib: lib.from_numpy(np.zeros(3)).resize_(4),
    "resize an array within": lambda lib: lib.from_numpy(np.zeros(3)).resize_(2),
    "a negative size": lambda lib: lib.zeros(3).resize_(-1),
    "fill_diagonal_ of a vector": lambda lib: lib.zeros(3).fill_diagonal_(1),
    "fill_diagonal_ of a box": lambda lib: lib.zeros(2, 3, 3).fill_diagonal_(1),
    "fill_diagonal_ of a cube": lambda lib: lib.zeros(3, 3, 3).fill_diagonal_(1),
    "apply_ to a leaf": lambda lib: _leaf(lib).apply_(lambda value: value),
    "map_ with a leaf": lambda lib: lib.zeros(2, 3).map_(_leaf(lib), lambda x, y: x + y),
    "no tensor": lambda lib: lib.abs_([1.0]),
}


@pytest.mark.parametrize("name", ATTEMPTS)
def test_what_is_refused(name: str) -> None:
    assert refused(stowgrad, ATTEMPTS[name]) == refused(torch, ATTEMPTS[name])


# -- the top level -----------------------------------------------------------------------------------------------------

# Not among PyTorch's functions of the same kind: for its sparse tensors.
NOT_OFFERED = {"resize_as_sparse_"}
ARGUMENTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "addmv_": lambda lib: (lib.tensor([[0.1, 0.2], [0.3, 0.4]]), lib.tensor([0.5, 0.6])),
    "as_strided_": lambda lib: ((1,), (1,)),
    "clamp_": lambda lib: (0.2, 0.4),
    "clip_": lambda lib: (0.2, 0.4),
    "clamp_min_": lambda lib: (0.4,),
    "clamp_max_": lambda lib: (0.4,),
    "fill_": lambda lib: (3.0,),
    "index_put_": lambda lib: ((lib.tensor([1]),), lib.tensor(5.0)),
    "ldexp_": lambda lib: (lib.tensor([1, 2]),),
    "resize_as_": lambda lib: (lib.zeros(1, 2),),
    "threshold_": lambda lib: (0.4, 1.0),
    "xlogy_": lambda lib: (2.0,),
}
# Of whole numbers, of a table, and those with draws, which are compared elsewhere.
OTHERS = {"gcd_", "lcm_", "embedding_renorm_", "dropout_", "alpha_dropout_", "feature_dropout_", "rrelu_"}
OTHERS |= {"feature_alpha_dropout_"}
NAMES = sorted(name for name in dir(torch) if name.endswith("_") and not name.startswith("_"))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHERS | NOT_OFFERED])
def test_the_top_level(name: str) -> None:
    results = []
    for lib in (stowgrad, torch):
        x = lib.tensor([0.25, 0.75])
        if name in ("acosh_", "arccosh_"):
            x += 1
        function, arguments = getattr(lib, name), ARGUMENTS.get(name, lambda lib: ())(lib)
        assert function(x, *arguments) is x
        results.append(x.numpy())
    np.testing.assert_allclose(*results, rtol=1e-5)


def test_the_top_level_of_whole_numbers_and_tables() -> None:
    for name in ("gcd_", "lcm_"):
        pairs = [(lib.tensor([4, 6]), lib.tensor([6, 4])) for lib in (stowgrad, torch)]
        ours, theirs = (getattr(lib, name)(*pair) for lib, pair in zip((stowgrad, torch), pairs, strict=True))
        assert ours.tolist() == theirs.tolist()
    tables = [lib.tensor([[3.0, 4.0], [6.0, 8.0], [0.1, 0.1]]) for lib in (stowgrad, torch)]
    for lib, table in zip((stowgrad, torch), tables, strict=True):
        lib.embedding_renorm_(table, lib.tensor([0, 2]), 1.0, 2.0)
    np.testing.assert_allclose(tables[0].numpy(), tables[1].numpy(), rtol=1e-5)


def test_functions_of_python() -> None:
    for lib in (stowgrad, torch):
        x = lib.arange(4.0).reshape(2, 2)
        assert x.t().apply_(lambda value: value + 1).tolist() == [[1.0, 3.0], [2.0, 4.0]]
        assert x.map_(lib.ones(2), lambda a, b: a * 2 + b).tolist() == [[3.0, 5.0], [7.0, 9.0]]
        assert x.map2_(lib.ones(2), x, lambda a, b, c: a + b + c).tolist() == [[7.0, 11.0], [15.0, 19.0]]
        assert lib.tensor([1 + 2j]).conj_physical_().tolist() == [1 - 2j]
