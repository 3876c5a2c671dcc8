"""One training step of a small network, beside the same step by hand in NumPy and in PyTorch.

    python benchmarks/mlp.py [--rounds N] [--steps N]

Layers 784-256-256-10, batch 128, ReLU, softmax cross-entropy, plain gradient descent, float32. Fresh processes take
turns (A B C A B C ...), on one thread; what is timed is the processor time of a step, from the batch to the updated
weights and the loss as a Python float. The first losses of all are compared.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from harness import emit
from run import child

SIZES = (784, 256, 256, 10)
BATCH = 128
RATE = 0.1
WARM_UP = 50
TARGET = 1.3  # times the step by hand
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "STOWGRAD_NUM_THREADS": "1"}

Array = np.ndarray[Any, Any]
Step = Callable[[Array, Array], float]


def first_weights() -> list[tuple[Array, Array]]:
    """Weights ``(out, in)`` and biases, the same for everyone."""
    rng = np.random.default_rng(0)
    pairs = itertools.pairwise(SIZES)
    return [((rng.standard_normal((o, i)) / np.sqrt(i)).astype(np.float32), np.zeros(o, np.float32)) for i, o in pairs]


def batches(count: int) -> list[tuple[Array, Array]]:
    """Random pictures and classes."""
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((BATCH, SIZES[0])).astype(np.float32), rng.integers(0, SIZES[-1], BATCH))
        for _ in range(count)
    ]


def numpy_step() -> Step:
    """The floor: forward and backward written out, in as few passes over memory as NumPy allows."""
    layers = [(weight.T.copy(), bias) for weight, bias in first_weights()]  # (in, out): the fastest product
    rows = np.arange(BATCH)

    def step(x: Array, y: Array) -> float:
        inputs = []
        for number, (weight, bias) in enumerate(layers):
            inputs.append(x)
            x = x @ weight
            x += bias
            if number < len(layers) - 1:
                np.maximum(x, 0, out=x)
        x -= x.max(1, keepdims=True)
        exps = np.exp(x)
        sums = exps.sum(1, keepdims=True)
        loss = float((np.log(sums[:, 0]) - x[rows, y]).mean())
        exps /= sums
        exps[rows, y] -= 1
        exps /= BATCH
        grad = exps
        for number in reversed(range(len(layers))):
            weight, bias = layers[number]
            before = inputs[number]
            grad_w, grad_b = before.T @ grad, grad.sum(0)
            if number:
                grad = grad @ weight.T
                grad *= before > 0
            grad_w *= RATE
            weight -= grad_w
            bias -= RATE * grad_b
        return loss

    return step


def library_step(library: Any) -> Step:
    """The same in a library with PyTorch's names."""
    layers: list[Any] = []
    for weight, bias in first_weights():
        linear = library.nn.Linear(weight.shape[1], weight.shape[0])
        with library.no_grad():
            linear.weight.copy_(library.from_numpy(weight))
            linear.bias.copy_(library.from_numpy(bias))
        layers += [linear, library.nn.ReLU()]
    model = library.nn.Sequential(*layers[:-1])
    optimizer = library.optim.SGD(model.parameters(), lr=RATE)

    def step(x: Array, y: Array) -> float:
        loss = library.nn.functional.cross_entropy(model(library.from_numpy(x)), library.from_numpy(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def stowgrad_step() -> Step:
    """This library; `harness` has made it importable."""
    import stowgrad

    return library_step(stowgrad)


def torch_step() -> Step:
    """PyTorch."""
    import torch

    torch.set_num_threads(1)
    return library_step(torch)


PROGRAMS: dict[str, Callable[[], Step]] = {"numpy": numpy_step, "stowgrad": stowgrad_step, "torch": torch_step}
LABELS = {"numpy": "NumPy by hand", "stowgrad": "stowgrad", "torch": "PyTorch"}


def measure(name: str, steps: int) -> None:
    """What a child does: time one program, and print a row."""
    step, data = PROGRAMS[name](), batches(8)
    losses, seconds = [], []
    for number in range(WARM_UP + steps):
        x, y = data[number % len(data)]
        begin = time.process_time()
        losses.append(step(x, y))
        seconds.append(time.process_time() - begin)
    timed = seconds[WARM_UP:]
    emit({"median": statistics.median(timed), "least": min(timed), "losses": losses[:20]})


def main() -> int:
    """Run all programs in turn; 1 if their losses differ."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="fresh processes of each program (5)")
    parser.add_argument("--steps", type=int, default=300, help="timed steps of each (300)")
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        measure(options.program, options.steps)
        return 0
    os.environ.update(ONE_THREAD)
    names = [name for name in PROGRAMS if name != "torch" or importlib.util.find_spec("torch")]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            rows[name].append(child([__file__, "--program", name, "--steps", str(options.steps)]))
    return report(rows)


def report(rows: dict[str, list[dict[str, Any]]]) -> int:
    """Print the table; the exit code."""
    floor = statistics.median(row["median"] for row in rows["numpy"])
    lowest = min(row["least"] for row in rows["numpy"])
    print(f"{'':<14} {'median, ms':>10} {'least, ms':>10} {'x NumPy, median':>16} {'x NumPy, least':>15}")
    for name, found in rows.items():
        median = statistics.median(row["median"] for row in found)
        least = min(row["least"] for row in found)
        figures = f"{1e3 * median:10.3f} {1e3 * least:10.3f} {median / floor:16.2f} {least / lowest:15.2f}"
        print(f"{LABELS[name]:<14} {figures}")
    print(f"Target: stowgrad at most {TARGET} times NumPy.")
    expected = rows["numpy"][0]["losses"]
    for name, found in rows.items():
        if not np.allclose(found[0]["losses"], expected, rtol=1e-4):
            print(f"{LABELS[name]}: other losses, {json.dumps(found[0]['losses'])}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
