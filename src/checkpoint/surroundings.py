"""What a region draws its random numbers from, kept for its second run."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator

import numpy as np

from ..autograd.random import default_generator, drawing_from


class RandomState:
    """The random streams as they are now: stowgrad's, NumPy's global one and Python's."""

    def __init__(self) -> None:
        self._generator = default_generator().clone()
        self._numpy = np.random.get_state()  # noqa: NPY002  # user code may draw from the global stream
        self._python = random.getstate()

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Run a block of code on the streams as they were; afterwards they go on as if it had not run."""
        numpy_now, python_now = np.random.get_state(), random.getstate()  # noqa: NPY002
        np.random.set_state(self._numpy)  # noqa: NPY002
        random.setstate(self._python)
        try:
            with drawing_from(self._generator.clone()):
                yield
        finally:
            np.random.set_state(numpy_now)  # noqa: NPY002
            random.setstate(python_now)
