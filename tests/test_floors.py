"""The house has floors: a package imports only from lower ones, and no two files import each other in a loop.

Every import statement of a file counts, those inside functions and under ``if TYPE_CHECKING`` too: an import that is
hidden from the interpreter still couples the two files. Importing ``a.b.c`` also runs the ``__init__`` of ``a`` and
``a.b``; those count as imported, unless they are packages that the importing file lies in itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"

# architecture: docs/architecture.md
FLOORS = {
    "memory": 1,
    "kernels": 2,
    "saved_tensors": 3,
    "offload": 4,
    "autograd": 5,
    "checkpoint": 6,
    "amp": 7,
    "budget": 7,
    "fft": 7,
    "func": 7,
    "linalg": 7,
    "masked": 7,
    "special": 7,
    "profiler": 7,
    "nn": 7,
    "optim": 8,
    "testing": 7,
    "utils": 7,
    "cli": 8,
    "interop": 8,
    "": 9,  # the public face: src/__init__.py
}

Name = tuple[str, ...]  # ("memory", "pool"): the module's path below the package, () for the package itself


def modules(source: Path) -> dict[Name, Path]:
    """Each module below ``source`` by its name."""
    found = {}
    for file in sorted(source.rglob("*.py")):
        parts = file.relative_to(source).with_suffix("").parts
        found[parts[:-1] if parts[-1] == "__init__" else parts] = file
    return found


def written_imports(tree: ast.AST, package: Name) -> Iterator[tuple[int, Name, bool]]:
    """Each name below stowgrad that is imported: its line, the name, and whether its last part may be no module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top, *rest = alias.name.split(".")
                if top == "stowgrad":
                    yield node.lineno, tuple(rest), False
        elif isinstance(node, ast.ImportFrom):
            named = tuple(node.module.split(".")) if node.module else ()
            if node.level:
                start = package[: len(package) - (node.level - 1)] + named
            elif named[:1] == ("stowgrad",):
                start = named[1:]
            else:
                continue
            for alias in node.names:
                yield node.lineno, (*start, alias.name), True


def imports(source: Path) -> dict[Name, dict[Name, int]]:
    """For each module, the modules that it imports and the line of the first such import."""
    known = modules(source)
    graph: dict[Name, dict[Name, int]] = {}
    for name, file in known.items():
        package = name if file.name == "__init__.py" else name[:-1]
        edges = graph.setdefault(name, {})
        for line, target, maybe_attribute in written_imports(ast.parse(file.read_bytes()), package):
            # `from .pool import MemoryPool` imports the module pool, `from . import pool` too
            module = target[:-1] if maybe_attribute and target not in known else target
            parents = [module[:depth] for depth in range(1, len(module))]
            for imported in (module, *(p for p in parents if p != package[: len(p)])):
                if imported != name:
                    edges.setdefault(imported, line)
    return graph


def upward_imports(source: Path) -> list[str]:
    """Each import from the same floor of another package, or from a higher one."""
    wrong = []
    for name, edges in imports(source).items():
        here = name[0] if name else ""
        for imported, line in edges.items():
            there = imported[0] if imported else ""
            if here != there and FLOORS[there] >= FLOORS[here]:
                wrong.append(
                    f"{'.'.join(name) or 'stowgrad'}, line {line}: {here or 'stowgrad'} (floor {FLOORS[here]}) "
                    f"imports {'.'.join(imported) or 'stowgrad'} (floor {FLOORS[there]})"
                )
    return wrong


def import_cycle(source: Path) -> list[str]:
    """One loop of files that import each other, as dotted names, or an empty list."""
    try:
        TopologicalSorter({name: set(edges) for name, edges in imports(source).items()}).prepare()
    except CycleError as error:
        return [".".join(("stowgrad", *name)) for name in reversed(error.args[1])]
    return []


def test_every_package_has_a_floor():
    rooms = {name[0] for name in modules(SOURCE) if name}
    assert sorted(rooms - set(FLOORS)) == [], "give the new package a floor here and in docs/architecture.md"


def test_no_package_imports_from_its_own_floor_or_above():
    assert upward_imports(SOURCE) == []


def test_no_files_import_each_other_in_a_loop():
    assert import_cycle(SOURCE) == []


def test_inside_the_package_imports_are_relative():
    absolute = []
    for name, file in modules(SOURCE).items():
        for node in ast.walk(ast.parse(file.read_bytes())):
            named = []
            if isinstance(node, ast.Import):
                named = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                named = [node.module or ""]
            if any(module.split(".")[0] == "stowgrad" for module in named):
                absolute.append(f"{'.'.join(name)}, line {node.lineno}")
    assert absolute == []


# ---- the checker itself, on small houses with one planted fault ----


def house(root: Path, files: dict[str, str]) -> Path:
    for name, text in {"__init__.py": "", "memory/__init__.py": "", "kernels/__init__.py": "", **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


def test_downward_imports_are_accepted(tmp_path: Path):
    files = {
        "__init__.py": "from .memory import pool\nfrom . import kernels",
        "memory/__init__.py": "from .pool import lease",
        "memory/pool.py": "from .events import observers\nimport numpy.random\nlease = observers",
        "memory/events.py": "observers = ()",
        "kernels/tile.py": "from ..memory.pool import lease\nfrom .. import memory",
    }
    source = house(tmp_path, files)
    assert upward_imports(source) == []
    assert import_cycle(source) == []


UPWARD = {
    "plain": "from ..kernels import tile",
    "module": "from ..kernels.tile import run",
    "absolute": "import stowgrad.kernels.tile",
    "package": "from .. import kernels",
    "top": "from .. import version",
    "in a function": "def f():\n    from ..kernels import tile",
    "for typing only": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ..kernels.tile import run",
}


@pytest.mark.parametrize("text", UPWARD.values(), ids=UPWARD.keys())
def test_an_upward_import_is_found(tmp_path: Path, text: str):
    source = house(tmp_path, {"memory/pool.py": text, "kernels/tile.py": "run = 1"})
    assert upward_imports(source) != []


def test_an_import_across_the_same_floor_is_found(tmp_path: Path):
    source = house(tmp_path, {"nn/__init__.py": "", "utils/__init__.py": "", "utils/adam.py": "from ..nn import x"})
    assert len(upward_imports(source)) == 1


LOOPS = {
    "two files": {"memory/a.py": "from .b import x", "memory/b.py": "from .a import y"},
    "typing only": {
        "memory/a.py": "from .b import x",
        "memory/b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .a import y",
    },
    "in a function": {"memory/a.py": "from .b import x", "memory/b.py": "def f():\n    from . import a"},
    "with the package": {"memory/__init__.py": "from .a import x", "memory/a.py": "from . import y"},
    "with a nested package": {
        "memory/inner/__init__.py": "from .c import x",
        "memory/inner/c.py": "from ..a import x",
        "memory/a.py": "from .inner.d import z",
        "memory/inner/d.py": "z = 1",
    },
}


@pytest.mark.parametrize("files", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_is_found(tmp_path: Path, files: dict[str, str]):
    assert import_cycle(house(tmp_path, files)) != []
