"""Meta-learning (MAML): an inner step with `create_graph`, differentiated by the outer one."""

from __future__ import annotations

from typing import Any

from .data import STEPS, numbers


def run(torch: Any) -> list[float]:
    functional = torch.nn.functional

    def forward(weights: list[Any], x: Any) -> Any:
        w1, b1, w2, b2 = weights
        return functional.linear(torch.tanh(functional.linear(x, w1, b1)), w2, b2)

    shapes = [(12, 1), (12,), (1, 12), (1,)]
    weights = [
        torch.nn.Parameter(torch.tensor(numbers(*shape, seed=41 + place, scale=0.5)))
        for place, shape in enumerate(shapes)
    ]
    optimizer = torch.optim.SGD(weights, lr=0.05)
    x = torch.linspace(-3, 3, 25, dtype=torch.float64).unsqueeze(1)
    losses = []
    for step in range(STEPS):
        outer = 0.0
        for task in range(3):
            amplitude, phase = 1.0 + 0.2 * task, 0.3 * step + task
            y = amplitude * torch.sin(x + phase)
            support, query = slice(0, None, 2), slice(1, None, 2)
            inner = functional.mse_loss(forward(weights, x[support]), y[support])
            gradients = torch.autograd.grad(inner, weights, create_graph=True)
            adapted = [weight - 0.1 * gradient for weight, gradient in zip(weights, gradients)]
            outer = outer + functional.mse_loss(forward(adapted, x[query]), y[query])
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
        losses.append(outer.item())
    return losses
