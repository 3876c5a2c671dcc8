"""PyTorch's own sample inputs for each of its modules (ModuleInfo), run in both libraries.

``python -m tests.oracle.moduleinfo NAME...`` runs all samples of modules (``Conv2d``) and prints what differs;
``--list`` prints which modules are offered.

NOTE [ What is compared ]
1. How the module shows itself, and the names, shapes, dtypes and order of its state.
2. With the state of PyTorch's module loaded: the value; the gradients of all inputs and parameters along random
   directions; the gradients of those gradients; the buffers afterwards. In training and in evaluation.
"""

from __future__ import annotations

import argparse
import copy
import functools
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import stowgrad

from .opinfo_compare import (
    Conversion,
    NotComparableError,
    NotThereError,
    compare_gradients,
    compare_tensors,
    gradients,
    host,
    leaves,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal import common_modules

# Relative to the largest element of an array: value, gradient, second gradient.
TOLERANCES = (1e-10, 1e-8, 1e-7)


@functools.cache
def modules() -> dict[str, Any]:
    """Every ModuleInfo in float64 by the name of its module."""
    return {info.name.removeprefix("nn."): info for info in common_modules.module_db}


def offered(name: str) -> bool:
    """Whether we have the module."""
    return hasattr(stowgrad.nn, name)


def samples(info: Any, training: bool) -> list[Any]:
    """PyTorch's samples of a module, the same in every run."""
    torch.manual_seed(0)
    settings = {"device": "cpu", "dtype": torch.float64, "requires_grad": True, "training": training}
    return list(info.module_inputs_func(info, **settings))


def functions_of_ours(value: Any) -> Any:
    """A function of PyTorch's, or a module, as ours."""
    if isinstance(value, torch.nn.Module):
        return converted(value)
    name = getattr(value, "__name__", "")
    if callable(value) and getattr(torch.nn.functional, name, None) is value:
        return getattr(stowgrad.nn.functional, name)
    return value


def converted(module: torch.nn.Module) -> Any:
    """Our module of the same kind and state, of those that are arguments of others."""
    given = {"bias": True, "batch_first": False}
    if isinstance(module, torch.nn.TransformerEncoderLayer | torch.nn.TransformerDecoderLayer):
        attention = module.self_attn
        given = {
            "d_model": attention.embed_dim,
            "nhead": attention.num_heads,
            "dim_feedforward": module.linear1.out_features,
            "dropout": module.dropout.p,
            "activation": functions_of_ours(module.activation),
            "layer_norm_eps": module.norm1.eps,
            "batch_first": attention.batch_first,
            "norm_first": module.norm_first,
            "bias": module.linear1.bias is not None,
        }
    elif isinstance(module, torch.nn.LayerNorm):
        given = {"normalized_shape": module.normalized_shape, "eps": module.eps}
    else:
        raise NotComparableError(f"an argument of the kind {type(module).__name__}")
    ours = getattr(stowgrad.nn, type(module).__name__)(**given)
    load(ours, module)
    return ours


def load(ours: Any, theirs: torch.nn.Module) -> None:
    """Give our module the dtype and the state of PyTorch's."""
    ours.double()
    ours.load_state_dict({name: stowgrad.tensor(host(value)) for name, value in theirs.state_dict().items()})
    ours.train(theirs.training)


class Run:
    """One sample in both libraries."""

    def __init__(self, info: Any, sample: Any, training: bool) -> None:
        self.info, self.sample, self.training = info, sample, training
        self.made = Conversion()

    def check(self) -> None:
        """Fail unless everything agrees."""
        given = self.sample.constructor_input
        plain = [self.made.pair(value)[0] for value in (tuple(given.args), dict(given.kwargs))]
        args, keywords = tuple(map(functions_of_ours, plain[0])), {k: functions_of_ours(v) for k, v in plain[1].items()}
        theirs = self.info.module_cls(*given.args, **given.kwargs).double().train(self.training)
        ours = getattr(stowgrad.nn, self.info.name.removeprefix("nn."))(*args, **keywords)
        said = repr(theirs).replace("NonDynamicallyQuantizableLinear", "Linear")
        assert repr(ours.train(self.training)) == said, f"repr: {ours!r} instead of {said}"
        lazy = self.info.name.startswith("nn.Lazy")
        if lazy:  # its parameters have no shapes before its first call
            assert list(ours.state_dict()) == list(theirs.state_dict())
            theirs(*self.sample.forward_input.args)
        else:
            self._compare_states(ours.double(), theirs, None)
        load(ours, theirs)
        if lazy:
            ours(*[self.made.pair(value)[0] for value in self.sample.forward_input.args])
            assert repr(ours) == repr(theirs), f"repr: {ours!r} instead of {theirs!r}"
        self._compare_results(ours, theirs)
        self._compare_states(ours, theirs, TOLERANCES[0])

    def _compare_states(self, ours: Any, theirs: Any, tolerance: float | None) -> None:
        mine, others = ours.state_dict(), theirs.state_dict()
        assert list(mine) == list(others), f"state: {list(mine)} instead of {list(others)}"
        for name, value in others.items():
            compare_tensors(mine[name], value, name, tolerance)
        names = [name for name, _ in ours.named_modules()]
        assert names == [name for name, _ in theirs.named_modules()], f"modules: {names}"

    def _compare_results(self, ours: Any, theirs: Any) -> None:
        mine, others = zip(*[self.made.pair(part) for part in self._forward()], strict=True)
        for (_, parameter), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            assert parameter.requires_grad == other.requires_grad
            self.made.ours.append(parameter)
            self.made.theirs.append(other)
        expected = theirs(*others[0], **others[1])
        got = ours(*mine[0], **mine[1])
        pairs = []
        for value, other, where in leaves(got, expected):
            compare_tensors(value, other, where, TOLERANCES[0])
            assert value.requires_grad == other.requires_grad, f"{where}: requires_grad is {value.requires_grad}"
            if other.requires_grad and not other.isnan().any():
                pairs.append((value, other))
        if pairs:
            self._compare_gradients(pairs)

    def _forward(self) -> tuple[Any, Any]:
        given = self.sample.forward_input
        return tuple(copy.copy(given.args)), dict(given.kwargs)

    def _compare_gradients(self, pairs: list[tuple[Any, Any]]) -> None:
        again = bool(self.info.supports_gradgrad)
        try:
            ours, theirs = gradients(pairs, self.made, 1, again)
        except NotThereError:
            return
        compare_gradients(ours, theirs, "gradient", TOLERANCES[1])
        second = [
            (mine, other)
            for mine, other in zip(ours, theirs, strict=True)
            if mine is not None and other is not None and other.requires_grad
        ]
        if not again or not second:
            return
        for number, (mine, _) in enumerate(second):
            if not mine.requires_grad:  # only right where the second gradient is zero
                second[number] = (mine + 0 * sum(leaf.sum() for leaf in self.made.ours), second[number][1])
        try:
            ours, theirs = gradients(second, self.made, 5, False)
        except NotThereError:
            return
        if all(other is None or other.isfinite().all() for other in theirs):
            compare_gradients(ours, theirs, "second gradient", TOLERANCES[2])


def run(name: str, most: int | None = None) -> Iterator[tuple[str, bool]]:
    """Run a module's samples, or about as many as ``most``, spread evenly over them.

    Yields for each what is wrong, if anything, and whether it could be compared.
    """
    info = modules()[name]
    for training in (True, False) if info.train_and_eval_differ else (True,):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            ones = list(enumerate(samples(info, training)))
            for number, sample in ones[:: max(1, len(ones) // most) if most else 1]:
                label = f"sample {number}, {'training' if training else 'evaluation'}: {_shown(sample)}"
                try:
                    Run(info, sample, training).check()
                except NotComparableError:
                    yield "", False
                except AssertionError as error:
                    yield f"{label}\n  {error or _told(error)}", True
                except Exception as error:  # noqa: BLE001  # whatever ours raises where PyTorch's doesn't
                    yield f"{label}\n{_told(error)}", True
                else:
                    yield "", True


def _told(error: Exception) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "torch" not in frame.filename]
    lines = [f"    {frame.filename}:{frame.lineno} {frame.name}: {frame.line}" for frame in frames[-6:]]
    return "\n".join([f"{type(error).__name__}: {error}", *lines])


def _shown(sample: Any) -> str:
    return f"{sample.desc} {sample.constructor_input.args} {sample.constructor_input.kwargs}"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.moduleinfo", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="modules")
    parser.add_argument("--list", action="store_true", help="print which modules are offered")
    parser.add_argument("--all", action="store_true", help="run all that are offered")
    parser.add_argument("--failures", type=int, default=2, help="how many failures to print for each")
    asked = parser.parse_args()
    if asked.list:
        print("not offered:", *[name for name in modules() if not offered(name)], sep="\n  ")
    for name in [name for name in modules() if offered(name)] if asked.all else asked.names:
        outcomes = list(run(name))
        wrong = [problem for problem, _ in outcomes if problem]
        compared = sum(there for _, there in outcomes)
        print(f"{name}: passed {compared - len(wrong)}/{compared}, {len(outcomes) - compared} not comparable")
        print(*[f"- {problem}" for problem in wrong[: asked.failures]], sep="\n")


if __name__ == "__main__":
    main()
