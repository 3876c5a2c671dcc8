"""Cost of a small operation in PyTorch eager; see small_ops.py."""

from __future__ import annotations

import torch
from harness import emit
from small_ops import small_ops

if __name__ == "__main__":
    emit({"torch": torch.__version__, **small_ops(torch)})
