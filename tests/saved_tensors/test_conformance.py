"""Every built-in policy, and compositions of them, pass the tests that users' policies are given."""

from __future__ import annotations

import pytest

from stowgrad.offload import Offload, save_on_cpu, save_on_disk
from stowgrad.saved_tensors import Cast, Compress, Policy, Quantize, codecs
from stowgrad.saved_tensors.codecs import Compact
from stowgrad.saved_tensors.compress import _EXACT
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
    "cpu, each copy waited for": lambda: Offload("cpu", window=0),
    "disk": lambda: Offload("disk", min_bytes=0),
    "disk, one transfer at a time": lambda: save_on_disk(min_bytes=0, staging=0),
    "disk, with little staging": lambda: save_on_disk(min_bytes=0, staging="16 KiB"),
    "disk, unchecked": lambda: save_on_disk(min_bytes=0, checksum=False),
    "compressed on disk": lambda: Compress(min_bytes=0) | save_on_disk(min_bytes=0),
    "compressed on cpu": lambda: Compress(min_bytes=0) | save_on_cpu(),
    "cpu, then disk": lambda: save_on_cpu() | save_on_disk(min_bytes=0),
    "narrow, then zstd, then cpu, then disk": lambda: (
        Compress("narrow", min_bytes=0) | Compress("zstd", min_bytes=0) | save_on_cpu() | save_on_disk(min_bytes=0)
    ),
    "by dtype": lambda: Compress(min_bytes=0).where(dtype=["bool", "int64"]) | save_on_disk(min_bytes=0),
    "by op": lambda: save_on_disk(min_bytes=0).where(op=lambda name: name != "mul"),
    "by slot": lambda: Policy(Compact()).where(slot=["self", "other"]),
    "by size": lambda: Compress().where(min_bytes="1 KiB") | save_on_disk(min_bytes="1 KiB"),
}
LOSSY = {
    "bfloat16": (lambda: Cast("bfloat16", min_bytes=0), 0.05),
    "float16": (lambda: Cast("float16", min_bytes=0), 0.01),
    "float16, unscaled": (lambda: Cast("float16", scaled=False, min_bytes=0), 0.01),
    "int8": (lambda: Quantize(8, min_bytes=0), 0.2),
    "int4": (lambda: Quantize(4, min_bytes=0), 3.0),
    "bfloat16 on disk": (lambda: Cast("bfloat16", min_bytes=0) | save_on_disk(min_bytes=0), 0.05),
    "int8 on cpu": (lambda: Quantize(8, min_bytes=0) | save_on_cpu(), 0.2),
    "int4 on disk": (lambda: Quantize(4, min_bytes=0) | save_on_disk(min_bytes=0), 3.0),
    "bfloat16, then zstd": (lambda: Cast("bfloat16", min_bytes=0) | Compress("zstd", min_bytes=0), 0.05),
    "bfloat16 by dtype": (lambda: Cast("bfloat16", min_bytes=0).where(dtype="float32"), 0.05),
}
# What these are for isn't on the host.
ON_DEVICES_ONLY = ("cpu", "pinned", "cpu, each copy waited for")
TESTS = [name for name in dir(PolicyConformance) if name.startswith("test_")]


def test_every_codec_and_place_is_here():
    made = [make() for make in EXACT.values()] + [make() for make, _ in LOSSY.values()]
    stages = {type(link.stage).__name__ for policy in made for link in policy._links}
    assert stages == {*codecs.__all__, "HostStage", "DiskStage"} - {"HostCodec"}
    assert set(_EXACT) <= set(EXACT)


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
