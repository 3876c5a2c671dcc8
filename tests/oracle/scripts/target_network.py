"""Q-learning with a target network that follows slowly: two networks, `gather`, `max`, state dicts."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from .data import STEPS, numbers, set_weights


def run(torch: Any) -> list[float]:
    nn = torch.nn
    policy = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)).double()
    set_weights(torch, policy)
    target = copy.deepcopy(policy)
    target.load_state_dict(policy.state_dict())
    target.eval()
    for parameter in target.parameters():
        parameter.requires_grad_(False)

    rng = np.random.default_rng(21)
    states, following = torch.tensor(numbers(200, 4, seed=22)), torch.tensor(numbers(200, 4, seed=23))
    actions = torch.from_numpy(rng.integers(0, 3, (200, 1)))
    rewards = torch.tensor(rng.random(200))
    done = torch.tensor(rng.random(200) < 0.1)

    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    gamma, tau = 0.9, 0.05
    losses = []
    for _ in range(STEPS):
        batch = torch.from_numpy(rng.integers(0, 200, 32))
        q = policy(states[batch]).gather(1, actions[batch]).squeeze(1)
        with torch.no_grad():
            best = target(following[batch]).max(1)[0]
            best[done[batch]] = 0.0
            wanted = rewards[batch] + gamma * best
        loss = nn.functional.smooth_l1_loss(q, wanted)
        optimizer.zero_grad()
        loss.backward()
        for parameter in policy.parameters():
            parameter.grad.data.clamp_(-1, 1)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), policy.parameters()):
                slow.data.mul_(1 - tau).add_(fast.data, alpha=tau)
        losses.append(loss.item())
    return losses
