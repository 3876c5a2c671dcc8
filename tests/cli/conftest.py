"""For the tests of commands."""

from __future__ import annotations

import pytest

from .program import SCRIPT


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path / "train.py"
