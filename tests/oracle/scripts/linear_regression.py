"""Linear regression by hand-written gradient descent."""

from __future__ import annotations

from typing import Any

from .data import STEPS, numbers


def run(torch: Any) -> list[float]:
    x = torch.tensor(numbers(64, 3, seed=1), dtype=torch.float64)
    true_w = torch.tensor([[1.5], [-2.0], [0.5]], dtype=torch.float64)
    y = x @ true_w + 0.3 + 0.1 * torch.tensor(numbers(64, 1, seed=2), dtype=torch.float64)

    w = torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)
    b = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    lr = 0.1
    losses = []
    for _ in range(STEPS):
        prediction = x.mm(w) + b
        loss = (prediction - y).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
            w.grad.zero_()
            b.grad.zero_()
        losses.append(loss.item())
    return losses
