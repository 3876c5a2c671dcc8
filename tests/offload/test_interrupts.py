"""Ctrl-C at every line of packing and unpacking: nothing is left of the attempt, and the next one gives every bit."""

from __future__ import annotations

import errno
import linecache
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from stowgrad.memory import as_device, pool, storage_of
from stowgrad.offload import file, save_on_cpu, save_on_disk
from stowgrad.offload.streams import stream_of
from stowgrad.saved_tensors import Cast, Compress, Quantize
from stowgrad.saved_tensors.mutation import before_write

from ..saved_tensors.support import leased, save

POLICIES = {
    "disk": (lambda: save_on_disk(min_bytes=0), "cpu"),
    "disk, from where it lies": (lambda: save_on_disk(min_bytes=0), "cpu"),
    "disk, with little staging": (lambda: save_on_disk(min_bytes=0, staging="8 KiB"), "cpu"),
    "disk, one transfer at a time": (lambda: save_on_disk(min_bytes=0, staging=0), "cpu"),
    "compressed": (lambda: Compress(min_bytes=0), "cpu"),
    "compressed on disk": (lambda: Compress(min_bytes=0) | save_on_disk(min_bytes=0), "cpu"),
    "bfloat16": (lambda: Cast("bfloat16", min_bytes=0), "cpu"),
    "int8": (lambda: Quantize(8, min_bytes=0), "cpu"),
    "cpu": (save_on_cpu, "sim:0"),
    "cpu, then disk": (lambda: save_on_cpu() | save_on_disk(min_bytes=0), "sim:0"),
}
PACKAGES = tuple(str(Path(sys.modules[f"stowgrad.{name}"].__file__).parent) for name in ("offload", "saved_tensors"))
# Python itself ignores what is raised in these.
IGNORED = ("__del__",)


class interrupted:  # noqa: N801  # used like a function
    """Raises KeyboardInterrupt before the line with a number, counted over those of the policies' packages."""

    def __init__(self, at):
        self.left = at

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *exc_info):
        sys.settrace(None)

    def _call(self, frame, event, arg):
        code = frame.f_code
        return self._line if code.co_filename.startswith(PACKAGES) and code.co_name not in IGNORED else None

    def _line(self, frame, event, arg):
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
        # a `with` is a line again when it is left: no signal's handler runs between its body and its exit
        if event == "line" and not text.startswith("with "):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self._line


def numbers(name, device):
    size = 1 << 17 if name == "disk, from where it lies" else 3000  # whole pages of a block of its own, or not
    array = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    return leased(np.maximum(array, 0), device)


def packed_bytes():
    return [pool(device).bytes_by_category()["saved_packed"] for device in ("cpu", "sim:0")]


def settle(policy):
    """Bytes that are packed when nothing is under way. A part of the file may be lost: it can't be corrupted."""
    policy.synchronize()
    stream_of(as_device("sim:0"), "out")._worker.drain()  # a copy that was begun goes on
    return packed_bytes()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", POLICIES)
def test_an_interrupt_at_any_line_of_pack(name):
    make, device = POLICIES[name]
    policy, array = make(), numbers(name, device)
    expected = save(policy, array).load().tobytes()
    before = settle(policy)
    for line in count(1):
        handle = None
        with suppress(KeyboardInterrupt), interrupted(line):  # left with its traceback, which holds what it was at
            handle = save(policy, array)
        if handle is not None:
            break
        assert settle(policy) == before, line
        if name != "int8":  # it rounds each time anew
            others = [save(policy, array), save(policy, leased(np.arange(2000.0), device))]
            assert others[0].load().tobytes() == expected, line
            del others
    assert line > 20
    if name != "int8":
        assert handle.load().tobytes() == expected
    del handle
    assert settle(policy) == before


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", POLICIES)
def test_an_interrupt_at_any_line_of_unpack(name):
    make, device = POLICIES[name]
    policy, array = make(), numbers(name, device)
    handles = [save(policy, array), save(policy, leased(np.arange(2000.0), device))]
    policy.synchronize()
    expected = [handle.load().tobytes() for handle in handles]
    for which in (0, 1):
        for line in count(1):
            loaded = None
            with suppress(KeyboardInterrupt), interrupted(line):
                loaded = handles[which].load()
            assert handles[which].load().tobytes() == expected[which], line
            if loaded is not None:
                break
        assert line > 5


def test_an_interrupt_at_any_line_before_a_value_is_written_in_place(monkeypatch):
    def fails(fd, data, position):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(file.os, "pwrite", fails)
    for line in count(1):
        policy, array = save_on_disk(min_bytes=0), numbers("disk, from where it lies", "cpu")
        expected, handle = array.tobytes(), save(policy, array)
        policy.arena._writer.drain()
        with suppress(KeyboardInterrupt), interrupted(line) as interrupt:
            before_write(storage_of(array))
        assert handle.load().tobytes() == expected, line
        before_write(storage_of(array))
        storage_of(array).version += 1
        array[...] = -1
        assert handle.load().tobytes() == expected, line
        if interrupt.left > 0:
            break
    assert line > 10
