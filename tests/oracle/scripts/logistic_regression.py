"""Logistic regression with SGD, momentum and weight decay."""

from __future__ import annotations

from typing import Any

from .data import STEPS, numbers, set_weights


def run(torch: Any) -> list[float]:
    torch.manual_seed(0)
    x = torch.from_numpy(numbers(100, 5, seed=3))
    y = (x[:, 0] + 2 * x[:, 1] > 0).double().unsqueeze(1)

    model = torch.nn.Linear(5, 1).double()
    set_weights(torch, model)
    criterion = torch.nn.BCEWithLogitsLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=1e-3)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        accuracy = ((torch.sigmoid(model(x)) > 0.5) == y.bool()).float().mean()
    assert accuracy > 0.9
    return losses
