"""A classifier of two hidden layers, trained in mini-batches with Adam and a schedule."""

from __future__ import annotations

from typing import Any

from .data import STEPS, numbers, set_weights


def run(torch: Any) -> list[float]:
    nn = torch.nn
    functional = torch.nn.functional

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(6, 16)
            self.fc2 = nn.Linear(16, 16)
            self.norm = nn.LayerNorm(16)
            self.fc3 = nn.Linear(16, 3)

        def forward(self, x: Any) -> Any:
            x = functional.relu(self.fc1(x))
            x = self.norm(torch.tanh(self.fc2(x)))
            return functional.log_softmax(self.fc3(x), dim=-1)

    x = torch.tensor(numbers(120, 6, seed=5))
    target = torch.argmax(x[:, :3], dim=1)
    net = Net().to(torch.float64)
    set_weights(torch, net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=8, gamma=0.5)
    losses = []
    for step in range(STEPS):
        start = step * 30 % 120
        inputs, labels = x[start : start + 30], target[start : start + 30]
        optimizer.zero_grad(set_to_none=True)
        loss = functional.nll_loss(net(inputs), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses
