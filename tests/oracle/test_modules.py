"""Every module beside PyTorch's on PyTorch's own sample inputs: see `moduleinfo`."""

from __future__ import annotations

import pytest
import torch

from stowgrad import nn

from . import moduleinfo

NAMES = [name for name in moduleinfo.modules() if moduleinfo.offered(name)]

_DISTRIBUTED = "there is one process and one device"
_OLD = "PyTorch keeps it for old scripts only"
_NO_MODULE = "no module"

# Modules of PyTorch's that stowgrad does not offer, each with the reason.
NOT_OFFERED = {
    "Container": _OLD,
    "CrossMapLRN2d": _OLD,
    "DataParallel": _DISTRIBUTED,
    "LinearCrossEntropyOptions": _NO_MODULE,
    "NLLLoss2d": _OLD,
    "SyncBatchNorm": _DISTRIBUTED,
}


def check(name: str, most: int | None) -> None:
    outcomes = list(moduleinfo.run(name, most))
    problems = [problem for problem, _ in outcomes if problem]
    if problems:
        first = "\n".join(problems[:2])
        pytest.fail(f"{len(problems)} of {len(outcomes)} samples differ from PyTorch\n{first}", pytrace=False)
    assert all(compared for _, compared in outcomes)


@pytest.mark.parametrize("name", NAMES)
def test_some_samples(name: str):
    check(name, 30)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_samples(name: str):
    check(name, None)


def test_every_module_is_offered_or_listed_with_a_reason():
    theirs = {name for name in dir(torch.nn) if name[0].isupper() and isinstance(getattr(torch.nn, name), type)}
    ours = {*nn.modules.__all__, "Parameter", "Buffer", "UninitializedParameter", "UninitializedBuffer"}
    assert not ours & NOT_OFFERED.keys(), "offered, and yet listed"
    assert theirs - ours == NOT_OFFERED.keys()
    assert not ours - theirs, "modules that PyTorch doesn't have"
