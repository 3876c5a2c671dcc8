"""PyTorch's own sample inputs for each of its operators (OpInfo), run in both libraries.

``python -m tests.oracle.opinfo NAME...`` runs all samples of operators (``cumsum``, ``linalg.svd``, ``div`` in all
variants) and prints what differs; ``--list`` prints which operators are offered.

NOTE [ What is compared ]
1. The value: structure, field names, shapes, dtypes, numbers. The gradient of every input along random directions, and
   the gradient of that gradient, where PyTorch has them.
2. Every way to call it takes its turn over the samples: the function, its aliases, the method, the form that writes in
   place (on a copy).
3. Where a result is free in a sign or a phase (`FREE`), numbers and gradients are those of the quantities that the
   sample names, which are not free.
4. Where PyTorch's result depends on the seed (`SEEDED`), numbers are not compared.
"""

from __future__ import annotations

import argparse
import contextlib
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

from .opinfo_compare import (
    Conversion,
    NotComparableError,
    NotThereError,
    compare_gradients,
    compare_tensors,
    gradients,
    leaves,
)
from .opinfo_operators import Way, dtype_of_others, offered, operators, others, samples, ways

Call = Callable[..., Any]

# Relative to the largest element of an array: value, gradient, second gradient.
TOLERANCES = (1e-10, 1e-8, 1e-7)
# Factors on them, for what is computed in another order or badly conditioned.
LOOSE: dict[str, float] = {
    "cov": 100.0,  # its samples have weights in float32
    "pca_lowrank": 1e3,  # its samples have nearly equal singular values
    "special.bessel_j0": 1e4,  # PyTorch's are right to eight digits for large arguments
    "special.bessel_j1": 1e4,
    "special.bessel_y0": 1e4,
    "special.bessel_y1": 1e4,
    "svd_lowrank": 1e3,
}
FREE = {"svd", "linalg.svd", "linalg.eig", "linalg.eigh", "svd_lowrank", "pca_lowrank"}
SEEDED = {
    "bernoulli",
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",
    "normal",
    "svd_lowrank",
}
# Results whose elements are drawn or left as they are.
UNDEFINED = {
    "cauchy",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "exponential",
    "geometric",
    "log_normal",
    "multinomial",
    "new_empty",
    "new_empty_strided",
    "normal.in_place",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "uniform",
}
# Operators whose gradient is defined only behind the wrapper that PyTorch's own tests put around them: it makes the
# input symmetric, or a logarithm of probabilities.
WRAPPED = {"linalg.eigh", "linalg.eigvalsh", "nn.functional.ctc_loss"}

# Operators whose gradient PyTorch has wrong: its own gradcheck finds so.
ASTRAY = {"as_strided_scatter"}


class Outcome(NamedTuple):
    """What came of one sample: ``problem`` is empty where both agree; ``compared`` is false where they can't be."""

    index: int
    problem: str
    compared: bool = True


class Run:
    """One sample in both libraries."""

    def __init__(self, info: Any, sample: Any, way: Way) -> None:
        self.info, self.sample, self.way = info, sample, way
        self.made = Conversion()
        given = [self.made.pair(value) for value in (sample.input, tuple(sample.args), dict(sample.kwargs))]
        self.mine = [value[0] for value in given]
        self.others = [value[1] for value in given]
        factor = LOOSE.get(info.name, 1.0)
        self.tolerances: list[float | None] = [tolerance * factor for tolerance in TOLERANCES]

    def theirs(self) -> Any:
        value, args, keywords = self.others
        return self._wrapped(self.way.theirs, value, args, keywords)

    def ours(self) -> Any:
        value, args, keywords = self.mine
        return self._wrapped(self.way.ours, value, args, keywords)

    def _wrapped(self, function: Call, value: Any, args: Any, keywords: Any) -> Any:
        if self.info.name in WRAPPED:
            return self.info.gradcheck_wrapper(function, value, *args, **keywords)
        return function(value, *args, **keywords)

    def check(self) -> None:
        """Fail unless value, gradient and second gradient agree."""
        if self.sample.broadcasts_input and self.way.label[-1] == "_" != self.way.label[-2]:
            raise NotComparableError("the result is larger than what is to hold it")
        try:
            expected = self.theirs()
        except RuntimeError as error:
            raise NotComparableError(f"PyTorch refuses: {error}") from None
        name = self.info.name
        if {name, self.info.full_name} & UNDEFINED or (name in SEEDED and self._depends_on_seed(expected)):
            self.tolerances = [None] * 3
        got = self.ours()
        free = name in FREE
        for mine, other, where in leaves(got, expected):
            compare_tensors(mine, other, where, None if free else self.tolerances[0])
        if free:
            got, expected = self.sample.output_process_fn_grad(got), self.sample.output_process_fn_grad(expected)
            for mine, other, where in leaves(got, expected, "canonical value"):
                compare_tensors(mine, other, where, self.tolerances[0])
        if not self.made.theirs or name in ASTRAY:
            return
        pairs = []
        for mine, other, where in leaves(got, expected):
            assert mine.requires_grad == other.requires_grad, f"{where}: requires_grad is {mine.requires_grad}"
            if other.requires_grad:
                pairs.append((mine, other))
        if pairs:
            with contextlib.suppress(NotThereError):
                self._check_gradients(pairs)

    def _check_gradients(self, pairs: list[tuple[Any, Any]]) -> None:
        ours, theirs = gradients(pairs, self.made, 1, self.info.supports_gradgrad)
        compare_gradients(ours, theirs, "gradient", self.tolerances[1])
        if not self.info.supports_gradgrad:
            return
        again = [
            (mine, other)
            for mine, other in zip(ours, theirs)
            if mine is not None and other is not None and other.requires_grad
        ]
        for number, (mine, _) in enumerate(again):
            if not mine.requires_grad:  # only right where the second gradient is zero
                again[number] = (mine + 0 * sum(leaf.sum() for leaf in self.made.ours), again[number][1])
        if not again:
            return
        ours, theirs = gradients(again, self.made, 5, False)
        for other in theirs:
            if other is not None and not other.isfinite().all():
                return  # at this point PyTorch has no second derivative
        compare_gradients(ours, theirs, "second gradient", self.tolerances[2])

    def _depends_on_seed(self, expected: Any) -> bool:
        if self.info.name in FREE:
            expected = self.sample.output_process_fn_grad(expected)
        for seed in range(50):  # small samples are often the same by chance
            torch.manual_seed(seed)
            again = self.theirs()
            if self.info.name in FREE:
                again = self.sample.output_process_fn_grad(again)
            pairs = zip(_tensors_in(expected), _tensors_in(again), strict=True)
            if not all(torch.allclose(one, other, 1e-8, 1e-10, True) for one, other in pairs):
                return True
        return False


def _tensors_in(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tensors_in(part)


# -- runs --------------------------------------------------------------------------------------------------------------


def run(name: str, dtype: str = "float64", every: int = 1) -> list[Outcome]:
    """Run an operator's samples, or every n-th of them (at least one), each in one of the ways to call it."""
    info = operators(dtype).get(name) or others()[name]
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        ones, how = samples(info, dtype), ways(info)
        runs = max(len(ones), len(how)) if ones else 0
        start = zlib.crc32(name.encode()) % min(every, max(runs, 1))
        for number in range(start, runs, every):
            index, way = number % len(ones), how[(number // every) % len(how)]
            found.append(_outcome(info, ones[index], index, way, dtype.startswith("complex")))
    return found


def _outcome(info: Any, sample: Any, index: int, way: Way, complex_: bool) -> Outcome:
    try:
        Run(info, sample, way).check()
    except NotComparableError:
        return Outcome(index, "", False)
    except NotImplementedError as error:
        if complex_:  # complex numbers are refused where they aren't right yet
            return Outcome(index, "", False)
        return Outcome(index, f"{way.label}: {_told(error)}\n  {_shown(sample)}")
    except AssertionError as error:
        return Outcome(index, f"{way.label}: {error}\n  {_shown(sample)}")
    except Exception as error:  # noqa: BLE001  # whatever ours raises where PyTorch's doesn't
        return Outcome(index, f"{way.label}: {_told(error)}\n  {_shown(sample)}")
    return Outcome(index, "")


def _told(error: Exception) -> str:
    """What was raised, and through which lines of ours it came."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "stowgrad" in frame.filename and "/tests/" not in frame.filename] or frames[
        -3:
    ]
    lines = [f"    {frame.filename}:{frame.lineno} {frame.name}: {frame.line}" for frame in ours[-6:]]
    return "\n".join([f"{type(error).__name__}: {error}", *lines])


def _shown(sample: Any) -> str:
    text = " ".join(sample.summary().split())
    return text if len(text) < 600 else text[:600] + "..."


def _chosen(names: list[str], known: dict[str, Any]) -> list[str]:
    found = []
    for name in names:
        fitting = [full for full, info in known.items() if name in (full, info.name)]
        if not fitting:
            print(f"{name}: PyTorch has no samples for it")
        found += fitting
    return found


def _print_list(known: dict[str, Any]) -> None:
    there = [name for name, info in known.items() if offered(info)]
    print(f"offered, {len(there)} of {len(known)}:", *there, sep="\n  ")
    print("not offered:", *[name for name in known if name not in there], sep="\n  ")


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.opinfo", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="operators, with or without their variant")
    parser.add_argument("--list", action="store_true", help="print which operators are offered")
    parser.add_argument("--all", action="store_true", help="run all that are offered")
    parser.add_argument("--values", action="store_true", help="the operators without gradients")
    parser.add_argument("--every", type=int, default=1, help="run every n-th sample only")
    parser.add_argument("--dtype", default="float64", help="float64 or complex128")
    parser.add_argument("--failures", type=int, default=3, help="how many failures to print for each")
    asked = parser.parse_args()
    known = operators(asked.dtype)
    without = {name: info for name, info in others().items() if dtype_of_others(info)}
    if asked.list:
        _print_list(without if asked.values else known)
    if asked.all:
        asked_for = [name for name, info in (without if asked.values else known).items() if offered(info)]
    else:
        asked_for = _chosen(asked.names, {**without, **known})
    for name in asked_for:
        info = known.get(name) or without[name]
        if not offered(info):
            print(f"{name}: not offered")
            continue
        dtype = asked.dtype if name in known else dtype_of_others(info) or ""
        outcomes = run(name, dtype, asked.every)
        compared = [outcome for outcome in outcomes if outcome.compared]
        wrong = [outcome for outcome in compared if outcome.problem]
        left = f", {len(outcomes) - len(compared)} not comparable" if len(compared) < len(outcomes) else ""
        print(f"{name}: passed {len(compared) - len(wrong)}/{len(compared)}{left}")
        for outcome in wrong[: asked.failures]:
            print(f"- sample {outcome.index}, {outcome.problem}")


if __name__ == "__main__":
    main()
