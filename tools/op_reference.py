"""Writes docs/ops.md: every op with its arguments, what it keeps for backward and how much that is, and its source.

The bytes are measured: the op is recorded in float32 on the largest of its examples in the table of tests, and what its
node keeps is divided by the elements of the largest operand or result.

Usage: ``python tools/op_reference.py`` writes the page; ``--check`` only says whether it is up to date.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "ops.md"
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

HEAD = """# Operations

Every record of the derivative table: its arguments, what its node keeps for backward, how many bytes that is for each
element, and where the formula comes from. Functions that are compositions of these keep what their parts keep.

- *Kept* names the slots of the node, by which hooks and the profiler know them. *for x* says that a slot is there only
  if the gradient of *x* is wanted.
- *Bytes* are measured in float32 on the example named, and divided by the elements of the largest operand or result;
  an array that is kept twice counts once. What other nodes keep as well counts here too.
- *Workspace* marks ops during which NumPy or LAPACK allocates memory, which is charged to the pool meanwhile.

This page is written by `python tools/op_reference.py`.
"""


class Measured(NamedTuple):
    """What the node of an op kept on an example."""

    nbytes: int
    elements: int
    shapes: str
    slots: tuple[Any, ...]


def _cases() -> Any:
    return importlib.import_module("tests.autograd.ops.cases")


def measured(case: Any) -> Measured | None:
    """Record a case in float32; None if no node of its op comes out."""
    tensors = case.tensors(np.dtype(np.float32))
    results = case.function(*tensors)
    outputs = results if isinstance(results, tuple) else (results,)
    elements = max([tensor.numel() for tensor in (*tensors, *outputs)], default=1)
    shapes = ", ".join(str(tuple(array.shape)) for array in case.inputs)
    for node in _cases().nodes_of(results):
        if node.record.name == case.op:
            kept: dict[Any, int] = {}
            for variable in node.saved_variables:
                if variable is not None:
                    array = variable.plain
                    kept[id(variable.storage), array.shape, array.strides] = array.nbytes
            return Measured(sum(kept.values()), elements, shapes, node.record.saves)
    return None


def largest(name: str) -> Measured | None:
    """The measure of an op on its largest example."""
    cases = [case for case in _cases().CASES if case.op == name]
    for case in sorted(cases, key=lambda case: -max((array.size for array in case.inputs), default=0)):
        found = measured(case)
        if found is not None:
            return found
    return None


# -- text --------------------------------------------------------------------------------------------------------------


def _paragraphs(text: str | None) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n")]


def summary(documented: Any) -> str:
    """The first paragraph of a docstring, without its source."""
    return _paragraphs(documented.__doc__)[0].split(" Source:")[0].removesuffix(".")


def source(record: Any) -> str:
    """Where the formula comes from, as the docstring says."""
    for part in _paragraphs(record.__doc__):
        if "Source:" in part:
            return part.split("Source:")[1].strip().removesuffix(".")
    return ""


def arguments(record: Any) -> list[str]:
    """Names of a record's arguments: those of its shape rule, or of its view."""
    own = record.infer if record.infer is not _base().infer else getattr(record, "view", record.infer)
    names = _names(own)
    return ["x" if name == "*args" and record.inputs == 1 else name for name in names]


def _base() -> Any:
    return importlib.import_module("stowgrad.autograd.record").Record


def _names(function: Any) -> list[str]:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [f"{marks.get(parameter.kind, '')}{parameter.name}" for parameter in parameters]


def kept(slots: tuple[Any, ...], names: list[str], inputs: int) -> str:
    """The slots of a record, in words."""
    words = []
    for slot in slots:
        wanted = [
            names[n] if n < len(names) and not names[n].startswith("*") else f"input {n}" for n in slot.needed_for
        ]
        only = f" (for {', '.join(wanted)})" if wanted and inputs > 1 else ""
        words.append(f"{slot.name}{only}")
    return ", ".join(words) or "nothing"


def _number(value: float) -> str:
    return f"{value:.3g}"


def row(name: str, record: Any, differentiable: bool) -> str:
    """A line of a table."""
    names = arguments(record)
    cells = [f"`{name}`", summary(record), ", ".join(names)]
    if not differentiable:
        cells += ["no derivative", ""]
    else:
        found = largest(name)
        slots = found.slots if found is not None else record.saves
        cells.append(kept(slots, names, record.inputs))
        cells.append("" if found is None else f"{_number(found.nbytes / max(found.elements, 1))} on {found.shapes}")
    cells.append("yes" if record.workspace is not _base().workspace else "")
    cells.append(source(record))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page() -> str:
    """The whole page."""
    cases = _cases()
    families: dict[str, dict[str, Any]] = {}
    for name, record in cases.all_records().items():
        if name not in cases.FUSED:
            families.setdefault(record.__module__, {})[name] = record
    text = [HEAD]
    for family in sorted(families):
        title = family.rsplit(".", 1)[-1].replace("_", " ")
        text.append(f"## {title.capitalize()}\n\n{summary(sys.modules[family])}.\n")
        text.append("| op | what it computes | arguments | kept | bytes an element | workspace | source |")
        text.append("|---|---|---|---|---|---|---|")
        records = sorted(families[family].items())
        text += [row(name, record, name not in cases.NOT_DIFFERENTIABLE) for name, record in records]
        text.append("")
    return "\n".join(text)


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or check it; 1 if it is not up to date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is not up to date")
    text = page()
    if parser.parse_args(arguments).check:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
