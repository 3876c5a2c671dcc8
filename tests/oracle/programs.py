"""Random programs, run in PyTorch and here side by side: operations, views, writes and passes.

Steps are drawn while PyTorch runs them: what is possible depends on the shapes and values so far. Where the libraries
are known to differ (docs/decisions/0009), programs go around it:

- views that PyTorch can't make again after a write to their base are not used from there on;
- PyTorch lets some operations write where several elements lie in one place: the program ends there;
- results of operations lie in C order here, in the order of the operands there: only what is contiguous in both is
  flattened;
- a view is no input of `grad`: a write under no_grad gives it another node there;
- what is computed from a view that was taken under no_grad has a graph there, which leads nowhere; here it has none:
  neither it nor its views are asked whether they require grad;
- `abs` keeps its argument there, and two bits an element here: only there a write to the argument disturbs backward,
  and only there the gradient depends on the argument (by a derivative of 0). It is not among the operations;
- a part that was written by an operation that saves nothing, and a tensor multiplied or divided by a number, stand for
  no error in a second pass here: nothing was freed.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import torch

import stowgrad

Step = Callable[[Any, list[Any]], Any]
Drawn = tuple[str, Step]
ROWS, COLUMNS = 3, 4
_rng = np.random.default_rng(11)
LEAVES = [_rng.uniform(0.5, 1.5, size) for size in ((ROWS, COLUMNS), (COLUMNS,), ())]

# In both libraries these save the same: the former value, the result or nothing.
UNARY = ("neg", "sin", "cos", "tanh", "sigmoid", "square", "exp", "sqrt", "log", "reciprocal")
BINARY = ("add", "sub", "mul", "div")
LARGE = 1e4  # where values are larger than this, programs end: rounding would be all that is left

WRITES = ("view", "view", "unary", "binary", "binary", "fill", "assign", "made")
LOOKS = (*WRITES, "look", "look")
ALL = (*WRITES, "quiet", "operation", "operation", "operation", "detach", "backward", "grad")


class Program:
    """Draws steps of the given kinds."""

    def __init__(self, draw: Random, kinds: tuple[str, ...]) -> None:
        self.draw = draw
        self.kinds = kinds
        self.ran: list[str] = []

    def step(self, pool: list[Any], mine: list[Any]) -> Drawn:
        """A step, for PyTorch's tensors and ours so far: it may return tensors that join them."""
        draw = self.draw
        n = draw.randrange(len(pool))
        kind = draw.choice(self.kinds)
        if kind == "view":
            return self.view(n, tuple(pool[n].shape), pool[n].is_contiguous() and mine[n].is_contiguous())
        return getattr(self, kind)(n, tuple(pool[n].shape), pool)  # type: ignore[no-any-return]

    # -- views ---------------------------------------------------------------------------------------------------------

    def view(self, n: int, shape: tuple[int, ...], contiguous: bool) -> Drawn:
        draw = self.draw
        found: dict[str, Step] = {
            "unsqueeze": lambda lib, ts: ts[n].unsqueeze(0),
            "squeeze": lambda lib, ts: ts[n].squeeze(),
        }
        if contiguous:
            found["flat"] = lambda lib, ts: ts[n].reshape(-1)
            found["view"] = lambda lib, ts: ts[n].view(1, *reversed(shape))
        if shape:
            found |= self._views_of_dimensions(n, shape)
        name = draw.choice(sorted(found))
        how = found[name]
        if draw.random() < 0.08:
            return f"{n} no_grad {name}", lambda lib, ts: _under_no_grad(lib, how, ts)
        return f"{n} {name}", how

    def _views_of_dimensions(self, n: int, shape: tuple[int, ...]) -> dict[str, Step]:
        draw = self.draw
        d, size = draw.randrange(len(shape)), shape[draw.randrange(len(shape))]
        i = draw.randrange(shape[0])
        start = draw.randrange(shape[d])
        length = draw.randint(1, shape[d] - start)
        every = tuple([slice(None, None, draw.choice((1, 2))) for _ in shape])
        return {
            f"[{i}]": lambda lib, ts: ts[n][i],
            f"[..., None, {i % shape[-1]}]": lambda lib, ts: ts[n][..., None, i % shape[-1]],
            f"narrow({d}, {start}, {length})": lambda lib, ts: ts[n].narrow(d, start, length),
            f"{every}": lambda lib, ts: ts[n][every],
            "turned": lambda lib, ts: ts[n].permute(*reversed(range(len(shape)))),
            f"transpose(0, {d})": lambda lib, ts: ts[n].transpose(0, d),
            "expand": lambda lib, ts: ts[n].expand(2, *shape),
            f"split({size}, {d})": lambda lib, ts: ts[n].split(size, d)[0],
            f"chunk(2, {d})": lambda lib, ts: ts[n].chunk(2, d)[-1],
            f"unbind {i}": lambda lib, ts: ts[n].unbind(0)[i],
        }

    # -- writes --------------------------------------------------------------------------------------------------------

    def unary(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        name = self.draw.choice([name for name in UNARY if _is_harmless(name, pool[n])])
        return f"{n} {name}_", lambda lib, ts: nothing(getattr(ts[n], f"{name}_")())

    def binary(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        draw = self.draw
        name = draw.choice(BINARY)
        if draw.random() < 0.2:
            return f"{n} {name}_ 1.5", lambda lib, ts: nothing(getattr(ts[n], f"{name}_")(1.5))
        fitting = [m for m, other in enumerate(pool) if _broadcasts(tuple(other.shape), shape)]
        m = draw.choice([m for m in fitting if name != "div" or _is_harmless("reciprocal", pool[m])] or [n])
        # Operands in memory of their own: PyTorch refuses those that overlap the target in part.
        copied = draw.random() < 0.5 or (m != n and _same_memory(pool[m], pool[n]))
        return (
            f"{n} {name}_ {m} {'copied' if copied else ''}",
            lambda lib, ts: nothing(getattr(ts[n], f"{name}_")(ts[m].clone() if copied else ts[m])),
        )

    def fill(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        m = self.draw.choice([m for m, other in enumerate(pool) if _broadcasts(tuple(other.shape), shape)])
        k = self.draw.choice([k for k, other in enumerate(pool) if not other.ndim])
        found: dict[str, Step] = {
            f"{n} copy_ {m}": lambda lib, ts: nothing(ts[n].copy_(ts[m].clone())),
            f"{n} fill_": lambda lib, ts: nothing(ts[n].fill_(0.7)),
            f"{n} fill_ {k}": lambda lib, ts: nothing(ts[n].fill_(ts[k].clone())),
            f"{n} zero_": lambda lib, ts: nothing(ts[n].zero_()),
            f"{n} masked_fill_": lambda lib, ts: nothing(ts[n].masked_fill_(ts[n] > 0.9, 0.4)),
            f"{n} masked_fill_ {k}": lambda lib, ts: nothing(ts[n].masked_fill_(ts[n] > 0.9, ts[k].clone())),
        }
        name = self.draw.choice(sorted(found))
        return name, found[name]

    def assign(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        draw = self.draw
        if not shape:
            return self.unary(n, shape, pool)
        i, j = draw.randrange(shape[0]), draw.randrange(shape[-1])
        rows = draw.sample(range(shape[0]), draw.randint(1, shape[0]))
        columns = draw.sample(range(shape[-1]), draw.randint(1, shape[-1]))
        keys: list[Callable[[Any, Any], Any]] = [
            lambda lib, t: i,
            lambda lib, t: (..., j),
            lambda lib, t: slice(i, None),
            lambda lib, t: lib.tensor(rows),
            lambda lib, t: (..., lib.tensor(columns)),
            lambda lib, t: t > 0.8,
            lambda lib, t: (lib.tensor(rows), *[slice(None)] * (len(shape) - 2), j) if len(shape) > 1 else i,
        ]
        which = draw.randrange(len(keys))
        key = keys[which]
        k = draw.choice([k for k, other in enumerate(pool) if not other.ndim])
        whole = draw.random() < 0.3

        def step(lib: Any, ts: list[Any]) -> None:
            at = key(lib, ts[n])
            ts[n][at] = 1.1 if whole and which == 5 else ts[n][at].clone() + ts[n][at] if whole else ts[k].clone()

        return f"{n} key {which} {rows} {columns} {i} {j} = {'itself' if whole else k}", step

    def look(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        """The tensor itself comes to look at its memory in another way."""
        d = self.draw.randrange(len(shape)) if shape else 0
        found: dict[str, Step] = {
            f"{n} unsqueeze_({d})": lambda lib, ts: nothing(ts[n].unsqueeze_(d)),
            f"{n} squeeze_": lambda lib, ts: nothing(ts[n].squeeze_()),
        }
        if shape:
            found[f"{n} transpose_(0, {d})"] = lambda lib, ts: nothing(ts[n].transpose_(0, d))
            found[f"{n} squeeze_({d})"] = lambda lib, ts: nothing(ts[n].squeeze_(d))
        name = self.draw.choice(sorted(found))
        return name, found[name]

    def quiet(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        """A write under no_grad."""
        name, step = getattr(self, self.draw.choice(("unary", "binary", "fill", "assign")))(n, shape, pool)
        return f"no_grad {name}", lambda lib, ts: _under_no_grad(lib, step, ts)

    # -- operations ----------------------------------------------------------------------------------------------------

    def made(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        name = self.draw.choice(("sin", "tanh", "square", "clone"))
        return f"{n} {name}", lambda lib, ts: getattr(ts[n], name)()

    def operation(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        draw = self.draw
        m = draw.choice([m for m, other in enumerate(pool) if _broadcasts(tuple(other.shape), shape)])
        one = draw.choice([name for name in UNARY if _is_harmless(name, pool[n])])
        two = draw.choice(BINARY if _is_harmless("reciprocal", pool[m]) else BINARY[:3])
        found: dict[str, Step] = {
            f"{n} {one}": lambda lib, ts: getattr(ts[n], one)(),
            f"{n} {two} {m}": lambda lib, ts: getattr(ts[n], two)(ts[m]),
            f"1.5 {two} {m}": lambda lib, ts: getattr(lib.ones_like(ts[m]) + 0.5, two)(ts[m]),
            f"{n} where {m}": lambda lib, ts: lib.where(ts[n] > 0.85, ts[n], ts[m]),
            f"{n} masked_fill": lambda lib, ts: ts[n].masked_fill(ts[n] > 0.85, 0.3),
            f"{n} sum": lambda lib, ts: ts[n].sum(),
            f"{n} contiguous": lambda lib, ts: ts[n].clone().contiguous(),
        }
        if shape:
            d = draw.randrange(len(shape))
            picked = [draw.randrange(shape[0]) for _ in range(2)]
            found |= {
                f"{n} sum({d})": lambda lib, ts: ts[n].sum(d),
                f"{n} mean({d}, keepdim)": lambda lib, ts: ts[n].mean(d, keepdim=True),
                f"{n} softmax({d})": lambda lib, ts: ts[n].softmax(d),
                f"{n} cat": lambda lib, ts: lib.cat([ts[n], ts[n] + 2]),
                f"{n} stack {m}": lambda lib, ts: lib.stack([ts[n], ts[m].expand(shape)]),
                f"{n} picked {picked}": lambda lib, ts: ts[n][lib.tensor(picked)],
            }
        if len(shape) == 2:
            found[f"{n} matmul"] = lambda lib, ts: ts[n] @ ts[n].t()
        name = draw.choice(sorted(found))
        return name, found[name]

    def detach(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        return f"{n} detach", lambda lib, ts: ts[n].detach()

    # -- passes --------------------------------------------------------------------------------------------------------

    def roots(self, pool: list[Any]) -> list[int]:
        """One to three tensors, mostly such as require grad."""
        good = [m for m, tensor in enumerate(pool) if leads_to_a_leaf(tensor)]
        found = [self.draw.choice(good) for _ in range(self.draw.randint(1, 3))]
        plain = [m for m, tensor in enumerate(pool) if not tensor.requires_grad]
        return [*found, self.draw.choice(plain)] if plain and self.draw.random() < 0.03 else found

    def backward(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        roots = self.roots(pool)
        retain = self.draw.random() < 0.6

        def step(lib: Any, ts: list[Any]) -> None:
            seeds = [lib.ones_like(ts[m]) * 0.3 for m in roots]
            lib.autograd.backward([ts[m] for m in roots], seeds, retain_graph=retain)

        return f"backward of {roots}{', retained' if retain else ''}", step

    def grad(self, n: int, shape: tuple[int, ...], pool: list[Any]) -> Drawn:
        """The gradients join the tensors, as copies: it is nobody's business whose memory they share."""
        draw, roots = self.draw, self.roots(pool)
        whole = [m for m, tensor in enumerate(pool) if leads_to_a_leaf(tensor) and not tensor._is_view()]
        inputs = [draw.choice(whole) for _ in range(draw.randint(1, 2))]
        create, retain = draw.random() < 0.5, draw.random() < 0.8

        def step(lib: Any, ts: list[Any]) -> list[Any]:
            seeds = [lib.ones_like(ts[m]) * 0.3 for m in roots]
            found = lib.autograd.grad(
                [ts[m] for m in roots],
                [ts[m] for m in inputs],
                seeds,
                retain_graph=retain,
                create_graph=create,
                allow_unused=True,
            )
            return [None if tensor is None else tensor.clone() for tensor in found]

        return f"grad of {roots} for {inputs}{', recorded' if create else ''}{', retained' if retain else ''}", step


def nothing(_: Any) -> None:
    """A step that makes no new tensor."""


def _under_no_grad(lib: Any, step: Step, tensors: list[Any]) -> Any:
    with lib.no_grad():
        return step(lib, tensors)


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, target) == target
    except ValueError:
        return False


def _same_memory(a: Any, b: Any) -> bool:
    return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())


def _is_harmless(name: str, tensor: Any) -> bool:
    """Whether neither the operation nor its derivatives blow up rounding at these values."""
    values = tensor.detach()
    if name in ("sqrt", "log"):
        return bool((values > 1e-2).all())
    if name == "reciprocal":
        return bool((values.abs() > 1e-2).all())
    return name not in ("exp", "square") or bool((values.abs() < 5).all())


# -- both libraries ----------------------------------------------------------------------------------------------------


def begin(lib: Any) -> tuple[list[Any], list[Any]]:
    """Leaves, and the tensors that a program starts from."""
    leaves = [lib.tensor(array, dtype=lib.float64, requires_grad=True) for array in LEAVES]
    w, u, s = leaves
    a, b = (lib.tensor(number, dtype=lib.float64) for number in (1.25, 0.9))
    return leaves, [w, u, s, w * a, w * u, lib.zeros(ROWS, COLUMNS, dtype=lib.float64) + 0.6, u * s, s * b]


def attempt(function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """The result, or the error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(), None
    except (RuntimeError, IndexError, TypeError) as error:
        return None, error


def kind(error: BaseException | None) -> str:
    """What an error of a pass is about."""
    for words in ("second time", "modified by an inplace operation", "does not require grad", "multiple views"):
        if words in str(error):
            return words
    return "" if error is None else "something else"


def agree(error: BaseException | None, problem: BaseException | None) -> bool:
    """Whether neither library raises, or both for the same reason; of several errors either may meet another first."""
    if error is None or problem is None:
        return error is problem
    at_saved_values = ("second time", "modified by an inplace operation", "multiple views")
    return kind(error) == kind(problem) or (kind(error) in at_saved_values and kind(problem) in at_saved_values)


def lenient(error: BaseException | None, problem: BaseException | None, theirs: list[Any], ran: list[str]) -> bool:
    """Whether only PyTorch objects to a second pass, and may do so for what saves nothing here (see above)."""
    by_a_number = any(step.endswith(("mul_ 1.5", "div_ 1.5")) for step in ran)
    written = by_a_number or any("CopySlices" in names(tensor) for tensor in theirs)
    return written and problem is None and kind(error) == "second time"


def host(tensor: Any) -> np.ndarray[Any, Any]:
    """The values."""
    return np.asarray(tensor.detach().numpy(force=True))


def names(tensor: torch.Tensor) -> set[str]:
    """The names of the nodes that lead to one of PyTorch's tensors."""
    seen = {tensor.grad_fn} - {None}
    pending = list(seen)
    while pending:
        for successor, _ in pending.pop().next_functions:
            if successor is not None and successor not in seen:
                seen.add(successor)
                pending.append(successor)
    return {node.name().removeprefix("torch::autograd::") for node in seen}


def leads_to_a_leaf(tensor: torch.Tensor) -> bool:
    """Whether gradients that arrive at one of PyTorch's tensors end anywhere."""
    if tensor.grad_fn is None:
        return tensor.requires_grad and not tensor._is_view()
    return "AccumulateGrad" in names(tensor)


def has_its_history(tensor: torch.Tensor) -> bool:
    """Whether one of PyTorch's tensors requires grad because of a leaf, if it does: not of a graph that leads nowhere.

    A view that was taken under no_grad has no node, and requires grad where its base does.
    """
    origin = tensor._base if tensor.grad_fn is None and tensor._base is not None else tensor
    return origin.grad_fn is None or leads_to_a_leaf(origin)


def usable(tensor: torch.Tensor) -> bool:
    """Whether PyTorch can make the history of a view again; it also does so, here and not at some later use."""
    return attempt(lambda: tensor.grad_fn)[1] is None


def same(got: Any, expected: Any, what: str) -> None:
    """Raise unless two tensors have the same values, or both are None."""
    assert (got is None) == (expected is None), what
    if got is not None:
        scale = max(1.0, float(np.abs(host(expected)).max(initial=0.0)))
        np.testing.assert_allclose(host(got), host(expected), rtol=1e-8, atol=1e-9 * scale, err_msg=what)


def gradients(lib: Any, leaves: list[Any], tensors: list[Any]) -> tuple[Any, Any]:
    """First derivatives of what all tensors add up to, and derivatives of their squares."""
    loss = leaves[0].sum() * 0
    for weight, tensor in enumerate(tensors, start=1):
        loss = loss + (tensor * (0.1 * weight)).sum()
    first = lib.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    total = sum(((g * g).sum() for g in first if g is not None), leaves[0].sum() * 0)
    return first, lib.autograd.grad(total, leaves, allow_unused=True)


def run(draw: Random, kinds: tuple[str, ...], steps: int, name: str = "") -> str:
    """Run a program in both libraries and compare; returns what became of it."""
    program = Program(draw, kinds)
    (leaves, mine), (their_leaves, theirs) = begin(stowgrad), begin(torch)
    for _ in range(steps):
        named, step = program.step(theirs, mine)
        program.ran.append(named)
        result, error = attempt(functools.partial(step, torch, theirs))
        got, problem = attempt(functools.partial(step, stowgrad, mine))
        what = f"{name}: {program.ran}\nPyTorch: {error}\nstowgrad: {problem}"
        if error is None and "single memory location" in str(problem):
            return "overlap"
        if named.startswith(("backward", "grad")):
            if lenient(error, problem, theirs, program.ran):
                return "written part"
            if error is not None and agree(error, problem):
                return kind(error)  # which nodes have run by then depends on their order
        assert (error is None) == (problem is None), what
        for tensor, other in _pairs(got, result, what):
            mine.append(tensor)
            theirs.append(other)
        # What PyTorch can't make again is left alone from here on.
        alive = [usable(tensor) for tensor in theirs]
        theirs = [tensor for tensor, good in zip(theirs, alive, strict=True) if good]
        mine = [tensor for tensor, good in zip(mine, alive, strict=True) if good]
        if any(not bool((tensor.detach().abs() < LARGE).all()) for tensor in theirs):
            return "large"
        for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            same(a, b, f"{what}\ntensor {number}")
            if has_its_history(b):
                assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf), f"{what}\ntensor {number}"
        for number, (a, b) in enumerate(zip(leaves, their_leaves, strict=True)):
            same(a.grad, b.grad, f"{what}\ngrad of leaf {number}")
    return _compare_derivatives(leaves, mine, their_leaves, theirs, name, program.ran)


def _pairs(got: Any, result: Any, what: str) -> list[tuple[Any, Any]]:
    """What a step made in both libraries."""
    ours, theirs = (value if isinstance(value, list) else [value] for value in (got, result))
    assert [t is None for t in ours] == [t is None for t in theirs], what
    return [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None]


def _compare_derivatives(
    leaves: list[Any], mine: list[Any], their_leaves: list[Any], theirs: list[Any], name: str, ran: list[str]
) -> str:
    result, error = attempt(lambda: gradients(torch, their_leaves, theirs))
    got, problem = attempt(lambda: gradients(stowgrad, leaves, mine))
    what = f"{name}: {ran}\nPyTorch: {error}\nstowgrad: {problem}"
    if lenient(error, problem, theirs, ran):
        return "written part"
    assert agree(error, problem), what
    if error is not None:
        return kind(error)
    for order in (0, 1):
        for number in range(len(leaves)):
            same(got[order][number], result[order][number], f"{what}\nderivative {order + 1} of leaf {number}")
    return "compared"
