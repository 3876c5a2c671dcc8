"""The wheel holds every package, and nothing imports the package a second time under its folder's name."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import stowgrad

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PYTHON_FOLDERS = ("src", "tests", "tools", "examples", "benchmarks")


def package_name(folder: Path) -> str:
    return ".".join(("stowgrad", *folder.relative_to(ROOT / "src").parts))


def test_the_package_list_names_every_package():
    on_disk = {package_name(file.parent) for file in (ROOT / "src").rglob("__init__.py")}
    listed = PYPROJECT["tool"]["setuptools"]["packages"]
    assert sorted(on_disk) == listed, "tool.setuptools.packages names each folder of src/ with an __init__.py, sorted"


def test_every_folder_with_modules_is_a_package():
    folders = {file.parent for file in (ROOT / "src").rglob("*.py")}
    assert [str(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_every_file_beside_the_modules_is_shipped():
    shipped = PYPROJECT["tool"]["setuptools"]["package-data"]
    assert "py.typed" in shipped["stowgrad"]
    data = [f for f in (ROOT / "src").rglob("*") if f.is_file() and f.suffix not in {".py", ".pyc"}]
    assert ROOT / "src" / "py.typed" in data
    missing = [str(f) for f in data if not any(map(f.match, shipped.get(package_name(f.parent), ())))]
    assert missing == [], "name them in tool.setuptools.package-data"


def test_the_link_leads_to_src():
    link = ROOT / "stowgrad"
    if not link.is_symlink():
        pytest.skip("this checkout was made without symlinks; only type checking and doctests need the link")
    assert os.readlink(link) == "src"


def test_one_copy_of_the_package_is_loaded():
    assert Path(stowgrad.__file__).resolve() == ROOT / "src" / "__init__.py"
    assert "src" not in sys.modules


@pytest.mark.parametrize("folder", PYTHON_FOLDERS)
def test_nothing_imports_src(folder: str):
    found = []
    for file in [*(ROOT / folder).rglob("*.py"), *ROOT.glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_bytes())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            found += [f"{file}:{node.lineno}" for name in names if name.split(".")[0] == "src"]
    assert found == [], "import stowgrad, never src"


def test_the_version_is_that_of_the_distribution():
    try:
        installed = importlib.metadata.version("stowgrad")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("stowgrad is not installed here, only importable")
    assert installed == PYPROJECT["project"]["version"]
    assert stowgrad.__version__ == installed


def test_the_memprof_command_and_the_tool_are_one_program():
    assert PYPROJECT["project"]["scripts"] == {"memprof": "stowgrad.cli.memprof:main"}
    # From another folder, with no path set: the preamble of the tool has to find src/ by itself.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    result = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "memprof.py"), "--help"],
        cwd=ROOT / "docs",
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "memprof" in result.stdout
