"""A curve fitted with L-BFGS, which calls a closure."""

from __future__ import annotations

from typing import Any

from .data import STEPS, numbers


def run(torch: Any) -> list[float]:
    t = torch.linspace(0, 4, 50, dtype=torch.float64)
    y = 2.0 * torch.exp(-0.7 * t) * torch.cos(3.0 * t) + 0.01 * torch.tensor(numbers(50, seed=51))
    parameters = torch.tensor([1.0, 0.1, 2.5], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([parameters], lr=0.5, max_iter=2, history_size=5, line_search_fn="strong_wolfe")
    losses = []

    def closure() -> Any:
        optimizer.zero_grad()
        a, decay, frequency = parameters
        loss = torch.sum((a * torch.exp(-decay * t) * torch.cos(frequency * t) - y) ** 2)
        loss.backward()
        return loss

    for _ in range(STEPS):
        losses.append(optimizer.step(closure).item())  # noqa: PERF401  # as people write it
    return losses
