"""Exceptions without the tensors in their frames, and PyTorch's path to checkpoint."""

from __future__ import annotations

import stowgrad
from stowgrad import utils
from stowgrad.memory import pool


def test_pytorchs_path_leads_to_the_same_objects():
    for name in utils.checkpoint.__all__:
        assert getattr(utils.checkpoint, name) is getattr(stowgrad.checkpoint, name)
    assert set(utils.checkpoint.__all__) <= set(stowgrad.checkpoint.__all__)


def test_a_kept_exception_keeps_no_tensors():
    def inner() -> None:
        activations = stowgrad.ones(100_000)
        raise ValueError(f"after {activations.numel()}")

    def outer() -> None:
        more = stowgrad.ones(100_000)
        try:
            inner()
        except ValueError as error:
            raise ExceptionGroup("both", [error, RuntimeError(str(more.shape))]) from error

    before = pool("cpu").used_bytes()
    try:
        outer()
    except ExceptionGroup as error:
        kept = error
    assert pool("cpu").used_bytes() - before == 800_000
    assert utils.clear_frames(kept) is kept
    assert pool("cpu").used_bytes() == before
    assert str(kept.exceptions[0]) == "after 100000"
    assert kept.__traceback__ is not None
