"""Byte counts as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowgrad.memory import format_size, parse_size


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [("1.5 GiB", 1610612736), ("64 MB", 64_000_000), ("4096", 4096), ("1kib", 1024), (" 2 TB ", 2 * 10**12), (7, 7)],
)
def test_sizes_are_read(text, nbytes):
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "much", "1 XB", "-1 MB", "1 MB MB", "1e3", ".5 GiB", "0x10", -5])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match="size"):
        parse_size(text)


@pytest.mark.parametrize("given_size", [1.5, None, True, b"1"])
def test_other_kinds_are_refused(given_size):
    with pytest.raises(TypeError, match="expected a size"):
        parse_size(given_size)


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1610612736, "1.5 GiB"),
        (-2048, "-2.0 KiB"),
        (5 << 50, "5242880.0 GiB"),
    ],
)
def test_sizes_are_written(nbytes, text):
    assert format_size(nbytes) == text


@given(st.integers(0, 1 << 45))
def test_what_is_written_can_be_read(nbytes):
    assert abs(parse_size(format_size(nbytes)) - nbytes) <= max(0.06 * nbytes, 1)
