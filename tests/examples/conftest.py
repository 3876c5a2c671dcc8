from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NAMES = (
    *("demo", "gpt", "progress", "text", "train_text", "training"),
    *("compare_optimizers", "residual_network", "train_digits"),
    *("finetune_minilm", "minilm", "sentence_pairs"),
)

# A run of some milliseconds a step, on a text that takes no time to read.
SIZES = ["--layers", "2", "--heads", "2", "--width", "32", "--context", "64", "--batch", "4", "--vocabulary", "128"]
WORDS = [
    "memory",
    "of",
    "a",
    "tensor",
    "is",
    "kept",
    "until",
    "its",
    "gradient",
    "was",
    "computed",
    "and",
    "then",
    "free",
]


@pytest.fixture(scope="module")
def examples():
    """Imports one of the example programs' modules, as the programs themselves do."""
    sys.path.insert(0, str(EXAMPLES))
    yield importlib.import_module
    sys.path.remove(str(EXAMPLES))
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def train_text(examples: Callable[[str], ModuleType]) -> ModuleType:
    return examples("train_text")


@pytest.fixture
def tiny(tmp_path: Path) -> list[str]:
    """Options of a tiny run."""
    random = Random(0)
    paragraphs = [" ".join(random.choices(WORDS, k=40)) + "." for _ in range(100)]
    text = tmp_path / "text.txt"
    text.write_text("\n\n".join(paragraphs), encoding="utf-8")
    return ["--text", str(text), *SIZES]


@pytest.fixture
def program() -> Callable[..., subprocess.Popen[str]]:
    """Starts ``train_text.py`` as a user would."""

    def start(*arguments: str | Path) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
        command = [sys.executable, str(EXAMPLES / "train_text.py"), *map(str, arguments)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start
