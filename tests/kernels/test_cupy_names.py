"""The kernels on CuPy: their names, the calls of CuPy that they make, their CUDA sources. None of it needs a GPU."""

from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from stowgrad.kernels import backend, numpy_

from .. import fake_cupy

SOURCE = Path(__file__).resolve().parents[2] / "src"
# Defaults that suit the device, not the caller.
OWN_DEFAULTS = {"chunk_bytes"}


@pytest.fixture(scope="module")
def cupy_() -> Iterator[ModuleType]:
    with fake_cupy.installed():
        yield backend("cuda")


def test_the_names_are_those_of_the_numpy_kernels(cupy_: ModuleType) -> None:
    assert cupy_.__all__ == numpy_.__all__
    assert [name for name in cupy_.__all__ if not callable(getattr(cupy_, name))] == []


@pytest.mark.parametrize("name", numpy_.__all__)
def test_the_signature_is_that_of_the_numpy_kernel(name: str, cupy_: ModuleType) -> None:
    def parameters(module: ModuleType) -> list[tuple[str, object, object]]:
        given = inspect.signature(getattr(module, name)).parameters.values()
        return [(p.name, p.kind, None if p.name in OWN_DEFAULTS else p.default) for p in given]

    assert parameters(cupy_) == parameters(numpy_)


def called_names(file: Path) -> set[str]:
    """The attributes of ``cupy`` that a file names, as ``"cuda.Device"``."""
    found = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id == "cupy":
            found.add(".".join(reversed(parts)))
    return found


def test_the_double_has_every_name_that_is_used() -> None:
    used = set().union(*(called_names(file) for file in SOURCE.rglob("*.py")))
    assert "cuda.MemoryPointer" in used
    assert used - fake_cupy.names() == set(), "add them to tests/fake_cupy.py, and test them there"


def test_cupy_has_every_name_of_the_double() -> None:
    code = """
import functools, sys
try:
    import cupy
except ImportError:
    sys.exit("missing")
for name in sys.argv[1:]:
    functools.reduce(getattr, name.split("."), cupy)
"""
    command = [sys.executable, "-c", code, *sorted(fake_cupy.names())]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if result.stderr.strip() == "missing":
        pytest.skip("CuPy is not installed; it can be without a GPU")
    assert result.returncode == 0, result.stderr


def test_the_sources_compile_for_a_gpu(cupy_: ModuleType, tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on the PATH")
    kernels = [(kernel, dtype) for kernel in fake_cupy.registry for dtype in kernel.types()]
    source = "".join(kernel.host_source(dtype) for kernel, dtype in kernels)
    (tmp_path / "kernels.cu").write_text(source.replace('extern "C" void', 'extern "C" __global__ void'))
    command = ["nvcc", "-std=c++17", "-arch=sm_80", "-ptx", "-diag-suppress", "177", "kernels.cu"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "kernels.ptx").read_text().count(".entry") == len(kernels)


def test_nothing_of_cupy_is_imported_with_stowgrad() -> None:
    code = "import sys, stowgrad; stowgrad.ones(3).sum(); print([n for n in sys.modules if n.startswith('cupy')])"
    root = SOURCE.parent
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.stdout.strip() == "[]", result.stderr
