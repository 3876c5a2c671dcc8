"""A recurrent network over characters, its cell written by hand, with truncated backpropagation through time."""

from __future__ import annotations

from typing import Any

from .data import STEPS, numbers

TEXT = "the quick brown fox jumps over the lazy dog and the dog does not mind at all "


def run(torch: Any) -> list[float]:
    functional = torch.nn.functional
    letters = sorted(set(TEXT))
    index = {letter: number for number, letter in enumerate(letters)}
    data = torch.tensor([index[letter] for letter in TEXT], dtype=torch.long)
    size, hidden_size, length = len(letters), 24, 10

    def parameter(*sizes: int, seed: int) -> Any:
        return torch.tensor(numbers(*sizes, seed=seed, scale=0.2), dtype=torch.float64, requires_grad=True)

    embedding = parameter(size, 8, seed=11)
    w_ih, w_hh = parameter(hidden_size, 8, seed=12), parameter(hidden_size, hidden_size, seed=13)
    bias, w_out = (
        torch.zeros(hidden_size, dtype=torch.float64, requires_grad=True),
        parameter(size, hidden_size, seed=14),
    )
    parameters = [embedding, w_ih, w_hh, bias, w_out]
    optimizer = torch.optim.RMSprop(parameters, lr=5e-3)

    hidden = torch.zeros(1, hidden_size, dtype=torch.float64)
    losses = []
    for step in range(STEPS):
        start = step * length % (len(data) - length - 1)
        chunk = data[start : start + length + 1]
        hidden = hidden.detach()
        loss = torch.zeros((), dtype=torch.float64)
        for t in range(length):
            x = embedding[chunk[t]].unsqueeze(0)
            hidden = torch.tanh(x @ w_ih.t() + hidden @ w_hh.T + bias)
            logits = hidden @ w_out.t()
            loss = loss + functional.cross_entropy(logits, chunk[t + 1].view(1))
        loss = loss / length
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(parameters, 0.5)
        optimizer.step()
        losses.append(loss.item())
    return losses
