"""Every built-in policy, and compositions of them, pass the tests that users' policies are given."""

from __future__ import annotations

import pytest

from stowgrad.offload import save_on_cpu, save_on_disk
from stowgrad.saved_tensors import Cast, Compress, Policy, Quantize
from stowgrad.saved_tensors.codecs import Compact
from stowgrad.testing import PolicyConformance

EXACT = {
    "copy": lambda: Policy(Compact()),
    "packbits": lambda: Compress("packbits", min_bytes=0),
    "constant": lambda: Compress("constant", min_bytes=0),
    "narrow": lambda: Compress("narrow", min_bytes=0),
    "nonzeros": lambda: Compress("nonzeros", min_bytes=0),
    "zstd": lambda: Compress("zstd", min_bytes=0),
    "auto": lambda: Compress(min_bytes=0),
    "cpu": save_on_cpu,
    "pinned": lambda: save_on_cpu(pin_memory=True),
    "disk": lambda: save_on_disk(min_bytes=0),
    "compressed on disk": lambda: Compress(min_bytes=0) | save_on_disk(min_bytes=0),
    "compressed on cpu": lambda: Compress(min_bytes=0) | save_on_cpu(),
    "cpu, then disk": lambda: save_on_cpu() | save_on_disk(min_bytes=0),
}
LOSSY = {
    "bfloat16": (lambda: Cast("bfloat16", min_bytes=0), 0.05),
    "float16": (lambda: Cast("float16", min_bytes=0), 0.01),
    "float16, unscaled": (lambda: Cast("float16", scaled=False, min_bytes=0), 0.01),
    "int8": (lambda: Quantize(8, min_bytes=0), 0.2),
    "int4": (lambda: Quantize(4, min_bytes=0), 3.0),
    "bfloat16 on disk": (lambda: Cast("bfloat16", min_bytes=0) | save_on_disk(min_bytes=0), 0.05),
    "int8 on cpu": (lambda: Quantize(8, min_bytes=0) | save_on_cpu(), 0.2),
}
# What these are for isn't on the host.
ON_DEVICES_ONLY = ("cpu", "pinned")
TESTS = [name for name in dir(PolicyConformance) if name.startswith("test_")]


def conformance(make, **attributes):
    members = {"make_policy": lambda self: make(), "settle": lambda self, policy: policy.synchronize(), **attributes}
    return type("Conformance", (PolicyConformance,), members)()


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_policies(name, test):
    packs = ("sim:0",) if name in ON_DEVICES_ONLY else ("cpu", "sim:0")
    getattr(conformance(EXACT[name], packs=packs), test)()


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("name", LOSSY)
def test_lossy_policies(name, test):
    make, rtol = LOSSY[name]
    getattr(conformance(make, exact=False, rtol=rtol), test)()
