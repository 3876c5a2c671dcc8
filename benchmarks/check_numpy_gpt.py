"""Is the hand-written NumPy step right? Its gradients beside PyTorch's in float64, same weights and batch.

Prints the largest norm-wise distance over all parameters, beside PyTorch float32's own distance. Needs torch.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from gpt_inputs import FULL, TINY, Config, batches
from numpy_gpt import NumpyGPT
from threadpoolctl import threadpool_limits
from torch_gpt import GPT, load_weights


def torch_gradients(config: Config, dtype: torch.dtype) -> dict[str, np.ndarray]:
    """PyTorch's gradient of every parameter, computed in `dtype`."""
    model = GPT(config)
    load_weights(model, config)
    model.to(dtype)
    inputs, targets = next(batches(config))
    model(torch.from_numpy(inputs), torch.from_numpy(targets)).backward()
    return {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}


def main() -> None:
    """Print the five largest distances; exit with a message when one is too large."""
    config = TINY if "--tiny" in sys.argv else FULL
    exact = torch_gradients(config, torch.float64)
    theirs = torch_gradients(config, torch.float32)
    with threadpool_limits(1):
        model = NumpyGPT(config)
        inputs, targets = next(batches(config))
        model.loss_and_gradients(inputs.reshape(-1), targets.reshape(-1))

    def distance(value: np.ndarray, name: str) -> float:
        return float(np.linalg.norm(value - exact[name]) / np.linalg.norm(exact[name]))

    rows = [(distance(model.gradients[name], name), distance(theirs[name], name), name) for name in exact]
    for ours, torchs, name in sorted(rows, reverse=True)[:5]:
        print(f"{name:28s} from float64: NumPy {ours:.2e}   PyTorch float32 {torchs:.2e}")
    if max(rows)[0] > 1e-4:
        sys.exit("the hand-written step is wrong")


if __name__ == "__main__":
    main()
