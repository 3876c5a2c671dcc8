"""Cost of a small operation in stowgrad; see small_ops.py."""

from __future__ import annotations

from harness import emit
from small_ops import small_ops

import stowgrad

if __name__ == "__main__":
    emit({"stowgrad": stowgrad.__version__, **small_ops(stowgrad)})
