"""A small residual network (He et al., 2016) for images of one channel, and how its training images are moved about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import stowgrad
from stowgrad import Tensor, nn
from stowgrad.nn import functional as F
from stowgrad.utils.data import default_collate


class Block(nn.Module):
    """Two convolutions beside a shortcut: ``(B, channels, H, W)`` to ``(B, out, H / stride, W / stride)``."""

    def __init__(self, channels: int, out: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class ResidualNetwork(nn.Module):
    """Images ``(B, 1, H, W)`` to the logits of their classes, ``(B, classes)``."""

    def __init__(self, classes: int, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.Sequential(Block(width, width), Block(width, 2 * width, stride=2))
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.blocks(self.stem(images)))
        return logits


def moved(samples: Sequence[Any]) -> list[Tensor]:
    """A batch of samples (an image and its class each), every image moved by up to a pixel in both directions."""
    images, classes = default_collate(list(samples))
    padded = F.pad(images, (1, 1, 1, 1))
    B, _, H, W = images.shape
    down, right = stowgrad.randint(0, 3, (2, B, 1, 1))
    rows = (down + stowgrad.arange(H)[:, None]).expand(B, H, W)
    columns = (right + stowgrad.arange(W)).expand(B, H, W)
    which = stowgrad.arange(B)[:, None, None]
    return [padded[which, 0, rows, columns][:, None], classes]
