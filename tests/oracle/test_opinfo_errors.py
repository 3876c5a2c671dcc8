"""Arguments that PyTorch's own tests hold to be wrong: ours raises the same class of exception."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from . import opinfo
from .opinfo_compare import Conversion, NotComparableError

KNOWN = {
    name: info
    for name, info in {**opinfo.operators(), **opinfo.others()}.items()
    if opinfo.offered(info) and info.error_inputs_func is not None
}
# PyTorch raises a ValueError where the output size is a tuple, a RuntimeError like ours where it is a number.
_RANKS = "PyTorch's class of error depends on how the output size is given"
# Where ours differs: samples by number, and how.
DIFFERENT: dict[str, tuple[set[int], str]] = {
    "__rdiv__": ({0, 1}, "PyTorch's is an AttributeError from inside"),
    "arange": ({6}, "a step that is 0 in the dtype of out is a ValueError there, otherwise a RuntimeError"),
    "narrow_copy": ({1}, "PyTorch's is an assertion in C++"),
    "nn.functional.adaptive_avg_pool2d": ({0}, _RANKS),
    "nn.functional.adaptive_avg_pool3d": ({0}, _RANKS),
    "nn.functional.adaptive_max_pool2d": ({0}, _RANKS),
    "nn.functional.adaptive_max_pool3d": ({0}, _RANKS),
    "nn.functional.linear_cross_entropy": ({0}, "a ValueError, as cross_entropy has it"),
    "nn.functional.linear_cross_entropy.chunked": ({0}, "a ValueError, as cross_entropy has it"),
    "nn.functional.linear_cross_entropy.chunked_none": ({0}, "a ValueError, as cross_entropy has it"),
}


def arguments(sample: Any) -> list[Any] | None:
    """A sample's arguments for both libraries, or None if NumPy can't hold them."""
    made = Conversion()
    try:
        return [made.pair(value) for value in (sample.input, tuple(sample.args), dict(sample.kwargs))]
    except (NotComparableError, NotImplementedError, ValueError):  # sparse, on the meta device, of 65 dimensions
        return None


def attempt(function: Any, value: Any, args: Any, keywords: Any) -> Exception | None:
    try:
        function(value, *args, **keywords)
    except Exception as error:  # noqa: BLE001  # its class is what is compared
        return error
    return None


def takes_more(error: Exception, ours: Exception | None) -> bool:
    """Whether ours goes on where PyTorch refuses: numbers in place of tensors, ``out`` in memory that it shares."""
    about_out = ("unsupported operation", "not resizable", "Expected out tensor")
    if isinstance(error, TypeError):
        return ours is None or isinstance(ours, NotImplementedError)
    return ours is None and any(words in str(error) for words in about_out)


@pytest.mark.parametrize("name", KNOWN)
def test_errors(name: str):
    info, problems = KNOWN[name], []
    way = opinfo.ways(info)[0]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number, wrong in enumerate(info.error_inputs("cpu")):
            given = arguments(wrong.sample_input)
            if given is not None:
                error = attempt(way.theirs, *[value[1] for value in given])
                ours = attempt(way.ours, *[value[0] for value in given])
                same = error is None or isinstance(ours, type(error)) or takes_more(error, ours)
                if not same and number not in DIFFERENT.get(name, ((), ""))[0]:
                    problems.append(f"sample {number}: {ours!r} instead of {error!r}")
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)
