"""Activation functions, dropout and normalisation of which PyTorch has no samples, or under another name only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .op_cases import FLOATS, Case, signed, smooth

Call = Callable[..., Any]


def _copied(name: str, *numbers: float) -> Call:
    """A function that writes in place, on a copy."""
    return lambda lib, x: getattr(lib, name)(x.clone(), *numbers)


def _functional(name: str, *numbers: float) -> Call:
    """One of `nn.functional`, on a copy that it may write into."""
    return lambda lib, x: getattr(lib.nn.functional, name)(x.clone(), *numbers)


def _inplace(name: str, *numbers: float) -> Call:
    return lambda lib, x: getattr(lib.nn.functional, name)(x.clone(), *numbers, inplace=True)


TOP: dict[str, Call] = {
    "celu": lambda lib, x: lib.celu(x, 0.5),
    "celu_": _copied("celu_", 0.5),
    "hardshrink": lambda lib, x: lib.hardshrink(x, 0.4),
    "relu_": _copied("relu_"),
    "rrelu": lambda lib, x: lib.rrelu(x, 0.1, 0.4),
    "rrelu_": _copied("rrelu_", 0.1, 0.4),
    "selu": lambda lib, x: lib.selu(x),
    "selu_": _copied("selu_"),
    "threshold": lambda lib, x: lib.threshold(x, 0.5, 2.0),
    "threshold_": _copied("threshold_", 0.5, 2.0),
    "elu_": _functional("elu_", 0.7),
    "hardtanh_": _functional("hardtanh_", -0.5, 0.7),
    "leaky_relu_": _functional("leaky_relu_", 0.3),
}
INPLACE: dict[str, tuple[float, ...]] = {
    "celu": (0.5,),
    "elu": (1.3,),
    "hardswish": (),
    "hardtanh": (-0.5, 0.7),
    "leaky_relu": (0.3,),
    "mish": (),
    "relu": (),
    "relu6": (),
    "rrelu": (),
    "selu": (),
    "silu": (),
    "threshold": (0.5, 2.0),
}
# What is drawn can't be the same in both: nothing or everything is dropped.
DROPOUTS = ("dropout", "alpha_dropout", "feature_dropout", "feature_alpha_dropout")


def _activations() -> list[Case]:
    inputs = {"matrix": signed(3, 4), "empty": signed(0, 3), "large": signed(60, 35)}
    cases = [Case(name, label, call, (x,)) for name, call in TOP.items() for label, x in inputs.items()]
    for name, numbers in INPLACE.items():
        cases += [Case(name, f"in place, {label}", _inplace(name, *numbers), (x,)) for label, x in inputs.items()]
    cases += [
        Case("elu", "a negative alpha", lambda lib, x: lib.nn.functional.elu(x, -0.5), (signed(3, 4),)),
        Case("celu", "a negative alpha", lambda lib, x: lib.celu(x, -0.5), (signed(3, 4),)),
        Case("prelu", "channels", lambda lib, x, w: lib.prelu(x, w), (signed(2, 3, 4), signed(3))),
        Case("prelu", "channels that do not fit", lambda lib, x, w: lib.prelu(x, w), (signed(2, 3), signed(2))),
    ]
    return cases


def _gates() -> list[Case]:
    """Ours beside what it stands for."""

    def gated(name: str, plain: str, **keywords: Any) -> Call:
        def call(lib: Any, x: Any, gate: Any) -> Any:
            if lib.__name__ == "torch":
                return getattr(lib.nn.functional, plain)(x, **keywords) * gate
            return getattr(lib.nn.functional, name)(x, gate, **keywords)

        return call

    def biased(activation: str, plain: str, **keywords: Any) -> Call:
        def call(lib: Any, x: Any, bias: Any) -> Any:
            if lib.__name__ == "torch":
                return getattr(lib.nn.functional, plain)(x + bias, **keywords)
            return lib.nn.functional.bias_activation(x, bias, activation)

        return call

    two, biases = (signed(3, 4), signed(3, 4)), (signed(3, 4), signed(4))
    tanh = {"approximate": "tanh"}
    cases = [Case("bias_activation", name, biased(name, name), biases, FLOATS) for name in ("gelu", "mish", "relu")]
    cases += [Case("bias_activation", name, biased(name, name), biases, FLOATS) for name in ("sigmoid", "silu", "tanh")]
    return [
        *cases,
        Case("bias_activation", "gelu_tanh", biased("gelu_tanh", "gelu", **tanh), biases, FLOATS),
        Case("bias_activation", "hardswish", biased("hardswish", "hardswish"), biases, FLOATS),
        Case("geglu", "exact", gated("geglu", "gelu"), two, FLOATS),
        Case("geglu", "tanh", gated("geglu", "gelu", **tanh), two, FLOATS),
        Case("reglu", "plain", gated("reglu", "relu"), two, FLOATS),
        Case("swiglu", "plain", gated("swiglu", "silu"), two, FLOATS),
        Case("swiglu", "large", gated("swiglu", "silu"), (signed(60, 35), signed(60, 35)), FLOATS),
    ]


def _gumbel(hard: bool) -> Call:
    """Logits so far apart that the draw is the same."""
    return lambda lib, x: lib.nn.functional.gumbel_softmax(x * 1e4, 0.5, hard) * 1.0


def _dropouts() -> list[Case]:
    x, cases = signed(3, 4, 5), []
    for name in DROPOUTS:
        for p, train in ((0.0, True), (1.0, True), (0.5, False)):
            keywords = {"p": p, "train": train}
            label = f"p = {p}, train={train}"
            cases += [
                Case(name, label, lambda lib, x, n=name, k=keywords: getattr(lib, n)(x, **k), (x,), FLOATS),
                Case(
                    f"{name}_",
                    label,
                    lambda lib, x, n=name, k=keywords: getattr(lib, n + "_")(x.clone(), **k),
                    (x,),
                    FLOATS,
                ),
            ]
    for number in (1, 2, 3):
        shape = (2, 3, *range(2, 2 + number))
        for label, p, training in (("none", 0.0, True), ("all", 1.0, True), ("not in training", 0.5, False)):
            keywords = {"p": p, "training": training}
            cases.append(
                Case(
                    f"dropout{number}d",
                    label,
                    lambda lib, x, n=number, k=keywords: getattr(lib.nn.functional, f"dropout{n}d")(x, **k),
                    (signed(*shape),),
                    FLOATS,
                )
            )
    return [
        *cases,
        Case("dropout1d", "no batch", lambda lib, x: lib.nn.functional.dropout1d(x, 1.0), (signed(3, 4),), FLOATS),
        Case(
            "dropout1d", "four dimensions", lambda lib, x: lib.nn.functional.dropout1d(x), (signed(1, 1, 3, 4),), FLOATS
        ),
        Case("native_dropout", "none", lambda lib, x: lib.native_dropout(x, 0.0, True), (x,), FLOATS),
        Case("native_dropout", "all", lambda lib, x: lib.native_dropout(x, 1.0, True), (x,), FLOATS),
        Case("native_dropout", "not in training", lambda lib, x: lib.native_dropout(x, 0.5, False), (x,), FLOATS),
        Case("gumbel_softmax", "soft", _gumbel(False), (signed(4, 6),), FLOATS),
        Case("gumbel_softmax", "hard", _gumbel(True), (signed(4, 6),), FLOATS),
    ]


def _running(call: Call) -> Call:
    """The result and the running statistics that were moved."""

    def run(lib: Any, x: Any, w: Any, b: Any, mean: Any, variance: Any) -> Any:
        mean, variance = mean.detach().clone(), variance.detach().clone()
        return call(lib, x, w, b, mean, variance), mean, variance

    return run


def _norms() -> list[Case]:
    numbers = (signed(3), signed(3), signed(3), smooth(3))
    batch, image = (signed(4, 3, 5), *numbers), (signed(2, 3, 6, 7), *numbers)
    cases = []
    for training in (True, False):
        call = _running(lambda lib, x, w, b, m, v, t=training: lib.batch_norm(x, w, b, m, v, t, 0.3, 1e-3, False))
        cases += [Case("batch_norm", f"training={training}, {x[0].ndim}-dim", call, x, FLOATS) for x in (batch, image)]
        call = _running(lambda lib, x, w, b, m, v, t=training: lib.instance_norm(x, w, b, m, v, t, 0.3, 1e-3, False))
        cases += [Case("instance_norm", f"{training}, {x[0].ndim}-dim", call, x, FLOATS) for x in (batch, image)]
    return [
        *cases,
        Case("norm_except_dim", "first", lambda lib, v: lib.norm_except_dim(v, 2, 0), (signed(3, 4, 5),), FLOATS),
        Case("norm_except_dim", "last", lambda lib, v: lib.norm_except_dim(v, 2, 2), (signed(3, 4, 5),), FLOATS),
        Case("norm_except_dim", "all", lambda lib, v: lib.norm_except_dim(v, 2, -1), (signed(3, 4, 5),), FLOATS),
    ]


CASES = [*_activations(), *_gates(), *_dropouts(), *_norms()]
