"""Runs train_digits.py on other images, and kills itself: ``killed_digits.py WHAT COUNT EXAMPLES ARGUMENT...``.

WHAT is a key of ``places``, or ``nowhere``; COUNT says at which call of it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def drawn() -> tuple[Any, Any]:
    """Noisy images of stripes in four directions, in place of scikit-learn's digits."""
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[:8, :8]
    patterns = np.stack([rows % 4 < 2, columns % 4 < 2, (rows + columns) % 4 < 2, (rows - columns) % 4 < 2])
    classes = np.arange(120) % 4
    return np.clip(patterns[classes] + 0.2 * rng.standard_normal((120, 8, 8)), 0, 1), classes


def dying(owner: Any, name: str, at: int, after: bool) -> None:
    """Let the call number ``at`` of a function be this process's end, before or after it has done its work."""
    function: Callable[..., Any] = getattr(owner, name)
    calls = [0]

    def call(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == at and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = function(*args, **kwargs)
        if calls[0] == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, call)


def main() -> int:
    """The command."""
    what, count, examples, *arguments = sys.argv[1:]
    sys.path.insert(0, examples)
    import train_digits

    from stowgrad.utils import atomic, serialization

    places = {
        "step": (train_digits.Training, "train_step", False),
        "update": (train_digits.AdamW, "step", True),  # schedule and average are behind the model then
        "write": (serialization, "host_bytes", False),  # in the middle of a file
        "flush": (atomic.os, "fsync", False),
        "replace": (atomic.os, "replace", False),
        "replaced": (atomic.os, "replace", True),
    }
    train_digits.load_digits = drawn
    if what != "nowhere":
        owner, name, after = places[what]
        dying(owner, name, int(count), after)
    result: int = train_digits.main(arguments)
    return result


if __name__ == "__main__":
    sys.exit(main())
