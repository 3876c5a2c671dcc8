#!/usr/bin/env python3
"""The ``memprof`` command, runnable from a bare checkout: ``python tools/memprof.py run SCRIPT``.

An installed stowgrad is used if there is one; otherwise the package is loaded from ``src/`` beside this folder.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def load_from_checkout() -> None:
    """Make ``import stowgrad`` find ``src/`` of this checkout, unless stowgrad can be imported already."""
    if importlib.util.find_spec("stowgrad") is not None:
        return
    source = Path(__file__).resolve().parents[1] / "src"
    spec = importlib.util.spec_from_file_location(
        "stowgrad", source / "__init__.py", submodule_search_locations=[str(source)]
    )
    if spec is None or spec.loader is None:
        sys.exit(f"memprof: stowgrad is not installed and {source} holds no package; try: pip install stowgrad")
    module = importlib.util.module_from_spec(spec)
    sys.modules["stowgrad"] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    load_from_checkout()
    from stowgrad.cli.memprof import main

    sys.exit(main())
