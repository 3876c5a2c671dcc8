"""Times of single kernels on one thread and on two, in milliseconds: what the notes in docs/decisions speak of."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import stowgrad
from stowgrad import kernels

ROWS, WIDTH, CLASSES, PARAMETERS = 2048, 384, 8192, 17_000_000
REPEATS = 11


def milliseconds(call: Callable[[], object]) -> float:
    """The median time of a call, after one that doesn't count."""
    call()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e3


def cases() -> dict[str, Callable[[], object]]:
    """The kernels of a GPT step at its sizes, float32."""
    k = kernels.backend("cpu")
    rng = np.random.default_rng(0)

    def some(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, dtype=np.float32)

    x, grad, wide, wide_grad = some(ROWS, WIDTH), some(ROWS, WIDTH), some(ROWS, 4 * WIDTH), some(ROWS, 4 * WIDTH)
    out, wide_out, mean, rstd, losses = (np.empty_like(a) for a in (x, wide, x[:, 0], x[:, 0], x[:, 0]))
    weight, bias, rows = some(WIDTH), some(WIDTH), np.full(ROWS, 1 / ROWS, np.float32)
    head, head_grad, targets = (
        some(CLASSES, WIDTH) * 0.05,
        np.empty((CLASSES, WIDTH), np.float32),
        rng.integers(0, CLASSES, ROWS),
    )
    states = [np.abs(some(PARAMETERS)) for _ in range(4)]
    loss = np.empty((), np.float32)
    adam = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "step": 3}
    k.layer_norm(x, weight, bias, out, mean, rstd, eps=1e-5)
    return {
        "gelu (tanh)": lambda: k.gelu(wide, wide_out, approximate="tanh"),
        "gelu backward": lambda: k.gelu_backward(wide_grad, wide, wide_out, approximate="tanh"),
        "layer norm": lambda: k.layer_norm(x, weight, bias, out, mean, rstd, eps=1e-5),
        "layer norm backward": lambda: k.layer_norm_backward(grad, x, weight, mean, rstd, out, bias, losses[:WIDTH]),
        "AdamW": lambda: k.adamw_step(*states, **adam),
        "loss, gradients apart": lambda: (
            k.linear_cross_entropy(x, head, None, targets, losses, mean),
            k.linear_cross_entropy_backward(rows, x, head, None, targets, mean, out, head_grad, None),
        ),
        "loss with gradients": lambda: k.linear_cross_entropy_with_grads(
            x, head, None, targets, loss, out, head_grad, None, scale=1 / ROWS
        ),
    }


def main() -> None:
    """Print a row for each kernel."""
    print("| kernel | 1 thread, ms | 2 threads, ms |")
    print("|---|---|---|")
    for name, call in cases().items():
        row = []
        for threads in (1, 2):
            stowgrad.set_num_threads(threads)
            row.append(milliseconds(call))
        print(f"| {name} | {row[0]:.2f} | {row[1]:.2f} |")


if __name__ == "__main__":
    main()
