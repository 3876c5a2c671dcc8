"""A critic trained with a penalty on the norm of its gradients: `autograd.grad` with `create_graph`."""

from __future__ import annotations

from typing import Any

from .data import STEPS, numbers, set_weights


def run(torch: Any) -> list[float]:
    nn = torch.nn
    critic = nn.Sequential(nn.Linear(2, 16), nn.Softplus(), nn.Linear(16, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    critic.double()
    set_weights(torch, critic)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2, betas=(0.5, 0.9))
    real, fake = torch.tensor(numbers(40, 2, seed=31) + 2), torch.tensor(numbers(40, 2, seed=32))
    mix = torch.tensor(numbers(40, 1, seed=33)).sigmoid()
    losses = []
    for _ in range(STEPS):
        between = (mix * real + (1 - mix) * fake).requires_grad_(True)
        scores = critic(between)
        (gradients,) = torch.autograd.grad(
            outputs=scores,
            inputs=between,
            grad_outputs=torch.ones_like(scores),
            create_graph=True,
            retain_graph=True,
        )
        penalty = ((gradients.norm(2, dim=1) - 1) ** 2).mean()
        loss = critic(fake).mean() - critic(real).mean() + 10.0 * penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
