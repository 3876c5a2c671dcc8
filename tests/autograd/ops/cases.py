"""The table of ops: for each record, functions that use it, with inputs away from kinks and poles."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import stowgrad
import stowgrad.autograd.ops
from stowgrad.autograd.ops import (
    activation,
    attention,
    cast,
    dropout,
    elementwise,
    embedding,
    linalg,
    loss,
    norm,
    overwrite,
    reduce,
    shape,
    sum_to,
)
from stowgrad.autograd.random import Generator
from stowgrad.autograd.record import Record


class Case(NamedTuple):
    """One use of an op.

    Attributes:
        op: name of the record.
        function: from tensors to a tensor or a tuple of them.
        inputs: arrays; those of floats take part in the check.
        label: which use it is.
    """

    op: str
    function: Callable[..., Any]
    inputs: tuple[np.ndarray[Any, Any], ...]
    label: str = ""

    @property
    def needs(self) -> tuple[bool, ...]:
        """Which inputs are differentiated."""
        return tuple(array.dtype.kind == "f" for array in self.inputs)

    def tensors(self, dtype: Any = None, needs: tuple[bool, ...] | None = None) -> list[Any]:
        """The inputs as leaves, those of floats in another dtype if one is given."""
        chosen = self.needs if needs is None else needs
        arrays = [a.astype(dtype) if dtype is not None and a.dtype.kind == "f" else a for a in self.inputs]
        return [stowgrad.tensor(a, requires_grad=needed) for a, needed in zip(arrays, chosen, strict=True)]


_rng = np.random.default_rng(2024)


def rand(*sizes: int, low: float = -1.0, high: float = 1.0) -> np.ndarray[Any, Any]:
    """Uniform float64 numbers."""
    return _rng.uniform(low, high, sizes)


def positive(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers from 0.5 to 2."""
    return rand(*sizes, low=0.5, high=2.0)


def apart(*sizes: int) -> np.ndarray[Any, Any]:
    """Numbers of both signs, no two of them nearer than 0.05, none nearer to 0 than that."""
    count = int(np.prod(sizes))
    steps = np.arange(1, count + 1) * 0.1 * np.where(np.arange(count) % 2, 1, -1)
    return _rng.permutation(steps).reshape(sizes)


UNARY = {
    "neg": (elementwise.neg, rand),
    "exp": (elementwise.exp, rand),
    "log": (elementwise.log, positive),
    "sqrt": (elementwise.sqrt, positive),
    "square": (elementwise.square, rand),
    "reciprocal": (elementwise.reciprocal, positive),
    "rsqrt": (elementwise.rsqrt, positive),
    "sin": (elementwise.sin, rand),
    "cos": (elementwise.cos, rand),
    "abs": (elementwise.abs, apart),
    "sign": (elementwise.sign, apart),
    "erf": (activation.erf, rand),
    "tanh": (activation.tanh, rand),
    "sigmoid": (activation.sigmoid, rand),
    "silu": (activation.silu, rand),
    "relu": (activation.relu, apart),
    "clone": (cast.clone, rand),
}
BINARY = {
    "add": (elementwise.add, rand),
    "sub": (elementwise.sub, rand),
    "mul": (elementwise.mul, rand),
    "div": (elementwise.div, positive),
    "pow": (elementwise.pow, positive),
    "maximum": (elementwise.maximum, apart),
    "minimum": (elementwise.minimum, apart),
}


def _unary_cases() -> list[Case]:
    found = []
    for name, (op, draw) in UNARY.items():
        found += [
            Case(name, op, (draw(3, 4),), "matrix"),
            Case(name, op, (draw(1).reshape(()),), "0-dim"),
            Case(name, op, (draw(40, 17),), "large"),  # above the size of the short way
            Case(name, lambda x, op=op: op(x.t()), (draw(3, 4),), "transposed"),
        ]
    return found


def _binary_cases() -> list[Case]:
    found = []
    for name, (op, draw) in BINARY.items():
        two = draw(2, 3, 4)
        found += [
            Case(name, op, (two[0], two[1]), "same shape"),
            Case(name, op, (two[0], two[1, 0]), "broadcast right"),
            Case(name, op, (two[0, :, :1], two[1]), "broadcast left"),
            Case(name, op, (two[0, 0, 0], two[1, 0, 0]), "0-dim both"),
            Case(name, op, (two[0, 0, 0], two[1]), "0-dim left"),
            Case(name, lambda x, op=op: op(x, 1.25), (two[0],), "number right"),
            Case(name, lambda x, op=op: op(1.25, x), (two[0],), "number left"),
            Case(name, lambda x, op=op: op(x, 1.25), (two[0, 0, 0],), "0-dim, number right"),
            Case(name, lambda x, op=op: op(1.25, x), (two[0, 0, 0],), "0-dim, number left"),
            Case(name, lambda x, op=op: op(x, x), (two[0],), "the same twice"),
        ]
        large = draw(2, 30, 20)
        found.append(Case(name, op, (large[0], large[1]), "large"))
    # Both ties and kinks: the same operand twice is only smooth for the smooth ones.
    return [case for case in found if not (case.op in ("maximum", "minimum") and case.label == "the same twice")]


def _dropout(x: Any, p: float = 0.3) -> Any:
    return dropout.dropout(x, p, Generator().manual_seed(3))


def _put(x: Any, values: Any, indices: Any) -> Any:
    return overwrite.index_put(x, values, indices, 2)


_TARGETS = np.array([0, 3, -100, 2, 4])
_MASK = np.array([[True, False, True], [False, True, True]])

OTHER = [
    Case("gelu", lambda x: activation.gelu(x, "tanh"), (rand(3, 4),), "tanh"),
    Case("gelu", lambda x: activation.gelu(x, "none"), (rand(3, 4),), "exact"),
    Case("native_dropout", _dropout, (rand(5, 7),)),
    Case("native_dropout", lambda x: _dropout(x, 0.0), (rand(5, 7),), "p = 0"),
    Case("native_dropout", lambda x: _dropout(x, 1.0), (rand(5, 7),), "p = 1"),
    Case("where", elementwise.where, (_MASK, rand(2, 3), rand(2, 3))),
    Case("where", elementwise.where, (_MASK, rand(3), rand(2, 1)), "broadcast"),
    Case("where", lambda c, x: elementwise.where(c, x, 0.5), (_MASK, rand(2, 3)), "number"),
    Case("to_copy", lambda x: cast.to_dtype(x, np.dtype(np.float64)) * 2.0, (rand(2, 3),)),
    Case("to_device", lambda x: (x.to("sim:0") * 2.0).cpu(), (rand(2, 3),)),
    Case("sum", reduce.sum, (rand(2, 3, 4),), "all"),
    Case("sum", lambda x: reduce.sum(x, (0, -1)), (rand(2, 3, 4),), "two"),
    Case("sum", lambda x: reduce.sum(x, 1, True), (rand(2, 3, 4),), "keepdim"),
    Case("sum", reduce.sum, (np.array(0.3),), "0-dim"),
    Case("mean", reduce.mean, (rand(2, 3, 4),), "all"),
    Case("mean", lambda x: reduce.mean(x, (1,), True), (rand(2, 3, 4),), "keepdim"),
    Case("amax", reduce.amax, (apart(2, 3, 4),), "all"),
    Case("amax", lambda x: reduce.amax(x, (0, 2), True), (apart(2, 3, 4),), "keepdim"),
    Case("softmax", lambda x: reduce.softmax(x, -1), (rand(3, 5),), "last"),
    Case("softmax", lambda x: reduce.softmax(x, 0), (rand(3, 5),), "first"),
    Case("log_softmax", lambda x: reduce.log_softmax(x, -1), (rand(3, 5),), "last"),
    Case("log_softmax", lambda x: reduce.log_softmax(x, 1), (rand(3, 5, 2),), "middle"),
    Case("view", lambda x: shape.view(x, (4, -1)), (rand(2, 6),)),
    Case("view", lambda x: shape.reshape(x.t(), (12,)), (rand(3, 4),), "reshape with a copy"),
    Case("permute", lambda x: shape.permute(x, (2, 0, -2)), (rand(2, 3, 4),)),
    Case("transpose", lambda x: shape.transpose(x, 0, -1), (rand(2, 3, 4),)),
    Case("slice", lambda x: x[1:, ::2], (rand(3, 5),), "slices"),
    Case("slice", lambda x: x[..., -1], (rand(3, 5),), "an integer"),
    Case("slice", lambda x: x[1, 2], (rand(3, 5),), "one element"),
    Case("slice", lambda x: x[:, None, ::-1], (rand(3, 5),), "new dimension, backwards"),
    Case("slice_backward", lambda x: shape.index_backward(x, (slice(1, 3),), (5, 2)), (rand(2, 2),)),
    Case("index", shape.gather, (rand(4, 3), np.array([[0, 2], [2, -1]])), "integers, one twice"),
    Case("index", shape.gather, (rand(2, 3), _MASK), "bools"),
    Case("index_backward", lambda x, i: shape.gather_backward(x, i, (4, 3)), (rand(3, 3), np.array([0, 2, 2]))),
    Case("copy", lambda x, y: (x * 2.0).copy_(y), (rand(2, 3), rand(2, 3))),
    Case("copy", lambda x, y: (x * 2.0).copy_(y), (rand(2, 3), rand(3, 1)[:2]), "broadcast"),
    Case("index_put", _put, (rand(3, 4, 2), rand(2, 2), np.array([1, 7]))),
    Case("index_put", _put, (rand(3, 4, 2), rand(2), np.array([[1], [7]])), "broadcast"),
    Case("cat", lambda x, y, z: shape.cat((x, y, z), 1), (rand(2, 1), rand(2, 3), rand(2, 2))),
    Case("cat", lambda x, y: shape.cat((x, y), -2), (rand(1, 2), rand(3, 2)), "first"),
    Case("split", lambda x: shape.split(x, (1, 2), 1), (rand(2, 3),)),
    Case("split", lambda x: shape.split(x, (1, 2), 1)[1], (rand(2, 3),), "one part unused"),
    Case("sum_to", lambda x: sum_to.sum_to(x, (1, 4)), (rand(2, 3, 4),)),
    Case("expand", lambda x: sum_to.expand(x, (2, 3, -1)), (rand(3, 1, 1)[:, 0].reshape(3, 1),)),
    Case("matmul", linalg.matmul, (rand(3, 4), rand(4, 2)), "matrices"),
    Case("matmul", linalg.matmul, (rand(4), rand(4)), "vectors"),
    Case("matmul", linalg.matmul, (rand(3, 4), rand(4)), "matrix, vector"),
    Case("matmul", linalg.matmul, (rand(4), rand(4, 3)), "vector, matrix"),
    Case("matmul", linalg.matmul, (rand(2, 1, 3, 4), rand(5, 4, 2)), "batches"),
    Case("matmul", linalg.matmul, (rand(4), rand(2, 4, 3)), "vector, batch"),
    Case("matmul", linalg.matmul, (rand(2, 3, 4), rand(4)), "batch, vector"),
    Case("linear", linalg.linear, (rand(2, 3, 4), rand(5, 4), rand(5)), "bias"),
    Case("linear", linalg.linear, (rand(3, 4), rand(5, 4)), "no bias"),
    Case("linear", linalg.linear, (rand(4), rand(5, 4), rand(5)), "one row"),
    Case("native_layer_norm", lambda x, w, b: norm.layer_norm(x, (4,), w, b), (rand(2, 3, 4), rand(4), rand(4))),
    Case("native_layer_norm", lambda x: norm.layer_norm(x, (3, 4)), (rand(2, 3, 4),), "plain, two dimensions"),
    Case("native_layer_norm", lambda x, w, b: norm.layer_norm(x, (4,), w, b), (rand(1, 4), rand(4), rand(4)), "a row"),
    Case("native_layer_norm", lambda x, w: norm.layer_norm(x, (4,), w), (rand(3, 4), rand(4)), "no bias"),
    Case("embedding", embedding.embedding, (np.array([[1, 0], [3, 1]]), rand(4, 3))),
    Case("embedding", lambda i, w: embedding.embedding(i, w, 1), (np.array([1, 0, 3, 1]), rand(4, 3)), "no gradient"),
    Case("cross_entropy", loss.cross_entropy, (rand(5, 6), _TARGETS)),
    Case(
        "linear_cross_entropy",
        loss.linear_cross_entropy,
        (rand(5, 4), rand(6, 4), rand(6), _TARGETS),
        "bias",
    ),
    Case(
        "linear_cross_entropy",
        lambda x, w, t: loss.linear_cross_entropy(x, w, None, t),
        (rand(5, 4), rand(6, 4), _TARGETS),
        "no bias",
    ),
    Case(
        "linear_cross_entropy_loss",
        lambda x, w, b, t: loss.linear_cross_entropy_loss(x, w, b, t, 0.25),
        (rand(5, 4), rand(6, 4), rand(6), _TARGETS),
        "bias",
    ),
    Case(
        "linear_cross_entropy_loss",
        lambda x, w, t: loss.linear_cross_entropy_loss(x, w, None, t, 1.0),
        (rand(5, 4), rand(6, 4), _TARGETS),
        "no bias",
    ),
    Case(
        "scaled_dot_product_attention",
        lambda q, k, v: attention.attention(q, k, v, None, True),
        (rand(2, 2, 4, 3), rand(2, 2, 4, 3), rand(2, 2, 4, 5)),
        "causal",
    ),
    Case(
        "scaled_dot_product_attention",
        lambda q, k, v: attention.attention(q, k, v, None, False, 0.7),
        (rand(1, 2, 3, 3), rand(1, 2, 5, 3), rand(1, 2, 5, 3)),
        "scaled",
    ),
    Case(
        "scaled_dot_product_attention",
        attention.attention,
        (rand(1, 2, 2, 3), rand(1, 2, 3, 3), rand(1, 2, 3, 3), _MASK),
        "bool mask",
    ),
]
# The gradient of rows numbered `padding` is left out on purpose: differences see it.
CASES = [*_unary_cases(), *_binary_cases(), *(case for case in OTHER if case.label != "no gradient")]

# Ops without a derivative: their results never require grad.
NOT_DIFFERENTIABLE = {"eq", "ne", "lt", "le", "gt", "ge", "argmax", "mask_of_bits", "zeros_of"}
# Fused gradients, which only run where nothing is recorded; the cases of the op before `_backward` run them.
FUSED = {
    "tanh_backward",
    "sigmoid_backward",
    "silu_backward",
    "relu_backward",
    "gelu_backward",
    "native_dropout_backward",
    "native_layer_norm_backward",
    "embedding_backward",
    "linear_backward",
    "cross_entropy_backward",
    "linear_cross_entropy_backward",
    "scaled_dot_product_attention_backward",
}


def all_records() -> dict[str, type[Record]]:
    """The class of every op that a module of `stowgrad.autograd.ops` defines, by name."""
    for module in pkgutil.iter_modules(stowgrad.autograd.ops.__path__):
        importlib.import_module(f"{stowgrad.autograd.ops.__name__}.{module.name}")
    found: dict[str, type[Record]] = {}
    pending: list[type[Record]] = [Record]
    while pending:
        cls = pending.pop()
        pending += cls.__subclasses__()
        if cls.name and cls.__module__.startswith(stowgrad.autograd.ops.__name__):
            found[cls.name] = cls
    return found


def nodes_of(results: Any) -> list[Any]:
    """All nodes that a result, or several, come from, the accumulators of leaves left out."""
    results = results if isinstance(results, tuple) else (results,)
    found: dict[Any, None] = {}
    pending = [result.grad_fn for result in results]
    while pending:
        node = pending.pop()
        if node is not None and node not in found and hasattr(node, "record"):
            found[node] = None
            pending += [edge[0] for edge in node.next_functions]
            pending.append(getattr(node, "inner", None))  # of a write through a view
    return list(found)
