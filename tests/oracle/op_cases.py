"""Functions and methods that stowgrad offers under PyTorch's names, each as one call that runs in both libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
FLOATS = ("float64", "float32")
_rng = np.random.default_rng(7)


class Case(NamedTuple):
    """One call, ``function(lib, *tensors)``, and the arrays that it is called on.

    Attributes:
        covers: the names in stowgrad that it is about.
        label: which use it is.
        function: the call.
        inputs: the arrays.
        dtypes: in which it is tried.
    """

    covers: str
    label: str
    function: Callable[..., Any]
    inputs: tuple[Array, ...]
    dtypes: tuple[str, ...] = ("float64", "float32", "int64", "bool")


def smooth(*sizes: int) -> Array:
    """float64 numbers from 0.3 to 2.3, no two of them equal: inside the domain of every function here."""
    count = int(np.prod(sizes))
    return (_rng.permutation(count) * (2.0 / max(count, 1)) + 0.3).reshape(sizes)


def signed(*sizes: int) -> Array:
    """The same, every second number negative."""
    values = smooth(*sizes)
    return values * np.where(np.arange(values.size) % 2, -1, 1).reshape(sizes)


SHAPES = {"matrix": (3, 4), "0-dim": (), "one": (1,), "empty": (0, 3), "large": (60, 35), "4-dim": (2, 3, 1, 4)}

UNARY = {
    "neg": lambda lib, x: -x,
    "abs": lambda lib, x: lib.abs(x),
    "exp": lambda lib, x: lib.exp(x),
    "log": lambda lib, x: lib.log(x),
    "sqrt": lambda lib, x: lib.sqrt(x),
    "rsqrt": lambda lib, x: x.rsqrt(),
    "square": lambda lib, x: x.square(),
    "reciprocal": lambda lib, x: x.reciprocal(),
    "sin": lambda lib, x: lib.sin(x),
    "cos": lambda lib, x: lib.cos(x),
    "tanh": lambda lib, x: lib.tanh(x),
    "sigmoid": lambda lib, x: lib.sigmoid(x),
    "relu": lambda lib, x: lib.relu(x),
    "erf": lambda lib, x: lib.erf(x),
    "sign": lambda lib, x: x.sign(),
    "clone": lambda lib, x: x.clone(),
    "contiguous": lambda lib, x: x.contiguous(),
    "detach": lambda lib, x: x.detach(),
    "gelu": lambda lib, x: lib.nn.functional.gelu(x),
    "gelu tanh": lambda lib, x: lib.nn.functional.gelu(x, approximate="tanh"),
    "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.5, training=False),
    "all": lambda lib, x: x.all(),
    "any": lambda lib, x: x.any(),
    "max": lambda lib, x: x.max(),
    "amax": lambda lib, x: x.amax(),
    "sum": lambda lib, x: lib.sum(x),
    "mean": lambda lib, x: lib.mean(x),
    "argmax": lambda lib, x: lib.argmax(x),
    "float": lambda lib, x: x.float(),
    "double": lambda lib, x: x.double(),
    "long": lambda lib, x: x.long(),
    "bool": lambda lib, x: x.bool(),
    "bfloat16": lambda lib, x: x.bfloat16().float(),
    "cpu": lambda lib, x: x.cpu(),
    "to": lambda lib, x: x.to(lib.float32),
    "T": lambda lib, x: x.T if x.ndim == 2 else x,
    "mT": lambda lib, x: x.mT,
    "t": lambda lib, x: x.t(),
    "squeeze": lambda lib, x: x.squeeze(),
    "flatten": lambda lib, x: x.flatten(),
    "ones_like": lambda lib, x: lib.ones_like(x),
    "zeros_like": lambda lib, x: lib.zeros_like(x),
    "as_tensor": lambda lib, x: lib.as_tensor(x),
}
NUMBERS = {"float": 1.5, "int": 3, "bool": True, "negative": -2, "nothing": 0}
BINARY = {
    "add": lambda lib, x, y: x + y,
    "sub": lambda lib, x, y: x - y,
    "mul": lambda lib, x, y: x * y,
    "div": lambda lib, x, y: x / y,
    "pow": lambda lib, x, y: x**y,
    "eq": lambda lib, x, y: x == y,
    "ne": lambda lib, x, y: x != y,
    "lt": lambda lib, x, y: x < y,
    "le": lambda lib, x, y: x <= y,
    "gt": lambda lib, x, y: x > y,
    "ge": lambda lib, x, y: x >= y,
}
TENSORS_ONLY = {
    "maximum": lambda lib, x, y: lib.maximum(x, y),
    "minimum": lambda lib, x, y: lib.minimum(x, y),
    "add alpha": lambda lib, x, y: x.add(y, alpha=2),
    "sub alpha": lambda lib, x, y: x.sub(y, alpha=2),
    "where": lambda lib, x, y: lib.where(x > y, x, y),
    "masked_fill": lambda lib, x, y: x.masked_fill(y > 1, 2),
    "masked_fill tensor": lambda lib, x, y: x.masked_fill(y > 1, x.sum() * 0 + 2),
}
PAIRS = {
    "same": ((3, 4), (3, 4)),
    "row": ((3, 4), (4,)),
    "outer": ((3, 1), (1, 4)),
    "column": ((2, 3, 4), (3, 1)),
    "0-dim": ((3, 4), ()),
    "both 0-dim": ((), ()),
    "empty": ((0, 3), (3,)),
    "empty outer": ((2, 1), (1, 0)),
    "large": ((40, 25), (40, 25)),
}
DIMS: dict[str, dict[str, Any]] = {
    "first": {"dim": 0},
    "last": {"dim": -1},
    "keep": {"dim": 1, "keepdim": True},
    "two": {"dim": (0, 2)},
    "list": {"dim": [-1, 1], "keepdim": True},
    "none": {"dim": None},
    "empty tuple": {"dim": ()},
    "only keepdim": {"dim": None, "keepdim": True},
}
KEYS: dict[str, Any] = {
    "integer": 1,
    "negative": (slice(None), -1),
    "slices": (slice(1, None), slice(None, None, 2)),
    "ellipsis": (..., 0),
    "none": (None, slice(0, 2)),
    "all": ...,
    "list and slice": ([1, 0], slice(1, None)),
    "lists apart": ([1, 0], slice(None), [2, 0]),
    "list and integer": (1, slice(None), [2, 0]),
    "list and none": ([1, 0], None, [2, 0]),
    "last list": (..., [3, -1]),
    "past the end": slice(2, 100),
    "nothing": slice(2, 1),
    "true": True,
    "false": False,
    "true and list": (True, [1, 0]),
    "list of lists": [[0, 1], [1, 0]],
    "list with slice": [slice(1), 0],
    "one element": (0, 1, 2),
}


def _unary() -> list[Case]:
    cases = [
        Case(name, label, function, (smooth(*shape),))
        for name, function in UNARY.items()
        for label, shape in SHAPES.items()
    ]
    signs = ("neg", "abs", "sign", "relu", "tanh", "sigmoid", "erf", "gelu", "gelu tanh", "square", "sin", "bool")
    return cases + [Case(name, "signed", UNARY[name], (signed(6, 7),)) for name in signs]


def _binary() -> list[Case]:
    cases = [
        Case(name, label, function, (smooth(*first), smooth(*second) + 0.01))
        for name, function in (BINARY | TENSORS_ONLY).items()
        for label, (first, second) in PAIRS.items()
    ]
    for name, function in BINARY.items():
        for kind, number in NUMBERS.items():
            right = lambda lib, x, f=function, n=number: f(lib, x, n)  # noqa: E731  # made in a loop
            left = lambda lib, x, f=function, n=number: f(lib, n, x)  # noqa: E731
            cases += [
                Case(name, f"{kind} right", right, (smooth(3, 4),)),
                Case(name, f"{kind} left", left, (smooth(2),)),
            ]
            cases += [Case(name, f"0-dim {kind} right", right, (smooth(),))]
    # PyTorch fails with an internal error in the gradient of True ** x, has the bool x for x ** True, and NaN for the
    # second derivative of 0 ** x, which is 0.
    odd = {("pow", "bool left"), ("pow", "bool right"), ("pow", "0-dim bool right"), ("pow", "nothing left")}
    cases = [case for case in cases if (case.covers, case.label) not in odd]
    return cases


def _reductions() -> list[Case]:
    cases = [
        Case(name, label, lambda lib, x, n=name, k=keywords: getattr(x, n)(**k), (smooth(2, 3, 4),))
        for name in ("sum", "mean")
        for label, keywords in DIMS.items()
    ]
    cases += [
        Case("amax", label, lambda lib, x, k=keywords: x.amax(**k), (smooth(2, 3, 4),))
        for label, keywords in DIMS.items()
        if keywords["dim"] is not None
    ]
    cases += [
        Case("argmax", label, lambda lib, x, k=keywords: x.argmax(**k), (smooth(2, 3, 4),))
        for label, keywords in DIMS.items()
        if not isinstance(keywords["dim"], tuple | list)
    ]
    for name in ("softmax", "log_softmax"):
        for dim in (0, 1, -1):
            call = lambda lib, x, n=name, d=dim: getattr(lib.nn.functional, n)(x, d)  # noqa: E731
            method = lambda lib, x, n=name, d=dim: getattr(x, n)(d)  # noqa: E731
            cases += [
                Case(name, f"dim {dim}", call, (signed(2, 3, 4),)),
                Case(name, f"method, dim {dim}", method, (signed(3, 40),)),
            ]
        cases.append(Case(name, "0-dim", lambda lib, x, n=name: getattr(x, n)(0), (smooth(),)))
        cases.append(Case(name, "empty", lambda lib, x, n=name: getattr(x, n)(-1), (smooth(0, 3),), FLOATS))
        cases.append(
            Case(
                name,
                "dtype",
                lambda lib, x, n=name: getattr(lib.nn.functional, n)(x, 1, dtype=lib.float64),
                (smooth(2, 3),),
            )
        )
    for name in ("sum", "mean"):
        cases.append(Case(name, "over nothing", lambda lib, x, n=name: getattr(x, n)(0), (smooth(0, 3),)))
        cases.append(Case(name, "0-dim, dim", lambda lib, x, n=name: getattr(x, n)(-1), (smooth(),)))
        cases.append(Case(name, "expanded", lambda lib, x, n=name: getattr(x.expand(5, 3, 4), n)(0), (smooth(3, 4),)))
    cases.append(Case("amax", "ties", lambda lib, x: (x * 0).amax(1), (smooth(3, 4),)))
    cases.append(Case("argmax", "ties", lambda lib, x: (x * 0).argmax(1), (smooth(3, 4),)))
    cases.append(Case("maximum", "ties", lambda lib, x: lib.maximum(x, x.clone()), (smooth(3, 4),)))
    return cases


VIEWS: dict[str, dict[str, Callable[..., Any]]] = {
    "view": {
        "split": lambda lib, x: x.view(2, 3, 2, 2),
        "merge": lambda lib, x: x.view(6, -1),
        "tuple": lambda lib, x: x.view((4, 6)),
    },
    "reshape": {
        "view": lambda lib, x: x.reshape(-1),
        "copy": lambda lib, x: x.transpose(0, 2).reshape(4, 6),
        "tuple": lambda lib, x: x.reshape((3, 8)),
    },
    "flatten": {"some": lambda lib, x: x.flatten(1), "middle": lambda lib, x: x.flatten(-3, -2)},
    "permute": {"all": lambda lib, x: x.permute(2, 0, 1), "tuple": lambda lib, x: x.permute((0, -1, 1))},
    "transpose": {"two": lambda lib, x: x.transpose(0, -1), "same": lambda lib, x: x.transpose(1, 1)},
    "expand": {
        "leading": lambda lib, x: x.expand(5, 2, 3, 4),
        "ones": lambda lib, x: x[:, :1].expand(-1, 7, -1),
        "nothing": lambda lib, x: x[:, :1].expand(2, 0, 4),
    },
    "unsqueeze": {"first": lambda lib, x: x.unsqueeze(0), "last": lambda lib, x: x.unsqueeze(-1)},
    "squeeze": {"one": lambda lib, x: x[:, :1].squeeze(1), "none to squeeze": lambda lib, x: x.squeeze(0)},
    "narrow": {"middle": lambda lib, x: x.narrow(1, 1, 2), "nothing": lambda lib, x: x.narrow(2, 4, 0)},
    "split": {
        "size": lambda lib, x: x.split(3, dim=2),
        "sizes": lambda lib, x: x.split([1, 0, 2], 1),
        "one used": lambda lib, x: x.split(2, -1)[1],
    },
    "chunk": {"even": lambda lib, x: x.chunk(2, -1), "short": lambda lib, x: x.chunk(2, 1)},
    "unbind": {"first": lambda lib, x: x.unbind(), "last": lambda lib, x: x.unbind(-1)},
    "cat": {
        "three": lambda lib, x: lib.cat([x, x[:, 1:], x * 2], 1),
        "last": lambda lib, x: lib.cat((x, x), dim=-1),
        "with nothing": lambda lib, x: lib.cat([x, x[:0]], 0),
    },
    "stack": {"first": lambda lib, x: lib.stack([x, x]), "last": lambda lib, x: lib.stack((x, x * 2), -1)},
    "contiguous": {"transposed": lambda lib, x: x.transpose(0, 2).contiguous()},
    "matmul": {
        "batches": lambda lib, x: x @ x.mT,
        "vectors": lambda lib, x: x[0, 0] @ x[1, 1],
        "matrix, vector": lambda lib, x: x[0] @ x[1, 1],
        "vector, matrix": lambda lib, x: x[0, :, 0] @ x[1],
        "batch, vector": lambda lib, x: x @ x[1, 1],
        "broadcast": lambda lib, x: x.unsqueeze(1) @ x.mT,
        "function": lambda lib, x: lib.matmul(x[0], x[1].t()),
    },
    "iter": {"rows": lambda lib, x: tuple(row * 2 for row in x)},
    "fancy": {
        "integers": lambda lib, x: x[lib.tensor([[0, 1], [-1, 0]])],
        "list": lambda lib, x: x[[1, 1, 0]],
        "bools": lambda lib, x: x[x > 1],
        "rows": lambda lib, x: x[lib.tensor([True, False])],
        "none of them": lambda lib, x: x[x > 100],
    },
}


def _shapes() -> list[Case]:
    x = smooth(2, 3, 4)
    cases = [Case(name, label, call, (x,)) for name, uses in VIEWS.items() for label, call in uses.items()]
    # Of bools PyTorch has only products without an element or a sum.
    nothing = {"empty": lambda lib, x: x[:, :0] @ x.mT, "no terms": lambda lib, x: x[:, :, :0] @ x.mT[:, :0]}
    cases += [Case("matmul", label, call, (x,), FLOATS) for label, call in nothing.items()]
    return cases + [
        Case("getitem", label, lambda lib, x, k=key: x[k], (smooth(3, 4, 5),)) for label, key in KEYS.items()
    ]


def _by_number() -> list[Case]:
    x = np.array([[0.5, 0.0, 1.5], [0.0, 2.0, -0.5]])
    codes = np.array([[1, 0], [2, 1]])
    one_hot: dict[str, Callable[..., Any]] = {
        "counted": lambda lib, c: lib.nn.functional.one_hot(c),
        "given": lambda lib, c: lib.nn.functional.one_hot(c, num_classes=5),
        "too few": lambda lib, c: lib.nn.functional.one_hot(c, 2),
        "negative": lambda lib, c: lib.nn.functional.one_hot(c - 1),
        "empty": lambda lib, c: lib.nn.functional.one_hot(c[:0], 3),
    }
    return [
        Case("nonzero", "matrix", lambda lib, x: x.nonzero(), (x,)),
        Case("nonzero", "0-dim", lambda lib, x: lib.nonzero(x[0, 0]), (x,)),
        Case("nonzero", "tuple", lambda lib, x: lib.nonzero(x, as_tuple=True), (x,)),
        Case("nonzero", "tuple, 0-dim", lambda lib, x: x[0, 0].nonzero(as_tuple=True), (x,)),
        Case("where", "condition alone", lambda lib, x: lib.where(x > 0), (x,)),
        *(
            Case(
                "segment_reduce",
                fold,
                lambda lib, x, f=fold: lib.segment_reduce(
                    x, f, lengths=lib.tensor([[2, 0, 1], [1, 1, 1]]), axis=1, unsafe=False
                ),
                (x + 0.1,),
                FLOATS,
            )
            for fold in ("sum", "mean", "max", "min", "prod")
        ),
        Case("argwhere", "function", lambda lib, x: lib.argwhere(x), (x,)),
        Case("argwhere", "method", lambda lib, x: x.T.argwhere(), (x,)),
        Case("tril_indices", "wide", lambda lib: lib.tril_indices(3, 4, 1), ()),
        Case("triu_indices", "long", lambda lib: lib.triu_indices(4, 2, -1, dtype=lib.int32), ()),
        Case("adjoint", "batch", lambda lib, x: x[None].adjoint(), (x,)),
        Case("vander", "all", lambda lib, x: lib.vander(x[0].detach()), (x,)),
        Case("vander", "increasing", lambda lib, x: lib.vander(x[0].detach(), 4, increasing=True), (x,)),
        Case("vander", "none", lambda lib, x: lib.vander(x[0].detach(), 0), (x,)),
        Case("unsafe_split_with_sizes", "", lambda lib, x: lib.unsafe_split_with_sizes(x, [1, 2], 1), (x,)),
        Case("unsafe_split_with_sizes", "method", lambda lib, x: x.unsafe_split_with_sizes([2, 0], 0), (x,)),
        *(Case("one_hot", label, call, (codes,)) for label, call in one_hot.items()),
    ]


def _functional(name: str, **keywords: Any) -> Callable[..., Any]:
    return lambda lib, *tensors: getattr(lib.nn.functional, name)(*tensors, **keywords)


def _attention() -> list[Case]:
    attention = "scaled_dot_product_attention"
    mask = np.array([[True, False, True], [False, True, True]])
    qkv = (signed(2, 3, 4, 5), signed(2, 3, 6, 5), signed(2, 3, 6, 2))
    square = (signed(2, 3, 4, 5), signed(2, 3, 4, 5), signed(2, 3, 4, 2))
    two = (signed(2, 5), signed(3, 5), signed(3, 4))
    return [
        Case(attention, "plain", _functional(attention), qkv),
        Case(attention, "causal", _functional(attention, is_causal=True), square),
        Case(attention, "scale", _functional(attention, scale=0.3), qkv),
        Case(attention, "two dimensions", _functional(attention), two),
        Case(
            attention,
            "bool mask",
            _functional(attention),
            (signed(1, 1, 2, 4), signed(1, 1, 3, 4), signed(1, 1, 3, 4), mask),
        ),
        Case(
            attention,
            "added mask",
            lambda lib, q, k, v, m: lib.nn.functional.scaled_dot_product_attention(q, k, v, m.detach()),
            (signed(1, 2, 2, 4), signed(1, 2, 3, 4), signed(1, 2, 3, 4), signed(2, 3)),
        ),
    ]


def _networks() -> list[Case]:
    targets = np.array([0, 3, -100, 2, 4])
    images = np.array([[0, 2], [1, -100]])
    index = np.array([[1, 0], [3, 1]])

    def entropy(lib: Any, x: Any, w: Any, t: Any, **keywords: Any) -> Any:
        """Our fused function beside PyTorch's two."""
        F = lib.nn.functional
        if lib.__name__ == "torch":
            return F.cross_entropy(F.linear(x, w), t, **keywords)
        return F.linear_cross_entropy(x, w, t, **keywords)

    cases = [
        Case("linear", "bias", _functional("linear"), (signed(2, 3, 4), signed(5, 4), signed(5))),
        Case("linear", "no bias", _functional("linear"), (signed(3, 4), signed(5, 4))),
        Case("linear", "vector", _functional("linear"), (signed(4), signed(5, 4), signed(5))),
        Case("linear", "no rows", _functional("linear"), (signed(0, 4), signed(5, 4), signed(5)), FLOATS),
        Case("layer_norm", "plain", lambda lib, x: lib.nn.functional.layer_norm(x, (4,)), (signed(2, 3, 4),)),
        Case("layer_norm", "two", lambda lib, x: lib.nn.functional.layer_norm(x, [3, 4]), (signed(2, 3, 4),)),
        Case(
            "layer_norm",
            "affine",
            lambda lib, x, w, b: lib.nn.functional.layer_norm(x, (4,), w, b, eps=1e-3),
            (signed(2, 3, 4), signed(4), signed(4)),
        ),
        Case("layer_norm", "no rows", lambda lib, x: lib.nn.functional.layer_norm(x, (4,)), (signed(0, 4),)),
        Case("embedding", "plain", _functional("embedding"), (index, signed(4, 3))),
        Case("embedding", "padding", _functional("embedding", padding_idx=1), (index, signed(4, 3))),
        Case("embedding", "negative padding", _functional("embedding", padding_idx=-1), (index, signed(4, 3))),
        Case("embedding", "no index", _functional("embedding"), (index[:0], signed(4, 3))),
        Case("cross_entropy", "one row", _functional("cross_entropy"), (signed(6), np.array(2))),
        Case("cross_entropy", "images", _functional("cross_entropy"), (signed(2, 3, 2), images)),
        # Of integers PyTorch has neither of the two; squares of integers are fine, so ours go on.
        Case("mse_loss", "mean", _functional("mse_loss"), (signed(3, 4), signed(3, 4)), FLOATS),
        Case("mse_loss", "sum", _functional("mse_loss", reduction="sum"), (signed(3, 4), signed(3, 4)), FLOATS),
        Case("mse_loss", "none", _functional("mse_loss", reduction="none"), (signed(3, 4), signed(3, 4)), FLOATS),
        Case("dropout", "all", lambda lib, x: lib.nn.functional.dropout(x, 1.0), (signed(6, 7),), FLOATS),
    ]
    for reduction in ("mean", "sum", "none"):
        keywords = {"reduction": reduction}
        cases += [
            Case("cross_entropy", reduction, _functional("cross_entropy", **keywords), (signed(5, 6), targets)),
            Case(
                "linear_cross_entropy",
                reduction,
                lambda lib, x, w, t, k=keywords: entropy(lib, x, w, t, **k),
                (signed(5, 4), signed(6, 4), targets),
            ),
        ]
    return [
        *cases,
        Case("cross_entropy", "ignored", _functional("cross_entropy", ignore_index=3), (signed(5, 6), targets % 6)),
    ]


CASES = [*_by_number(), *_unary(), *_binary(), *_reductions(), *_shapes(), *_attention(), *_networks()]
