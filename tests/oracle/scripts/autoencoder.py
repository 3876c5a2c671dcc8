"""A convolutional autoencoder."""

from __future__ import annotations

from typing import Any

from .data import STEPS, numbers, set_weights


def run(torch: Any) -> list[float]:
    nn = torch.nn
    encoder = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 4 * 4, 8),
    )
    decoder = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 64), nn.Sigmoid())
    model = nn.Sequential(encoder, decoder).double()
    set_weights(torch, model)

    images = torch.sigmoid(torch.as_tensor(numbers(20, 1, 8, 8, seed=7)))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.9, 0.99))
    loss_function = nn.MSELoss()
    losses = []
    model.train()
    for _ in range(STEPS):
        reconstruction = model(images).view(-1, 1, 8, 8)
        loss = loss_function(reconstruction, images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu().item())
    return losses
