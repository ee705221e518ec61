"""ResNet-18, written out: four stages of two blocks, each with two convolutions and a way around them."""

from __future__ import annotations

from typing import List

from torch import Tensor, nn
from torch.nn import functional

BLOCKS = 2  # in each stage
STAGES = 4


class Block(nn.Module):
    """Two convolutions, added to what came in."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.around: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.around = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.around(x))


class ResNet18(nn.Module):
    """With ``width`` 64 and 1000 classes it has 11.7 million parameters; narrower ones are for trying."""

    def __init__(self, width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.norm = nn.BatchNorm2d(width)
        blocks: List[nn.Module] = []
        channels_in = width
        for stage in range(STAGES):
            for i in range(BLOCKS):
                stride = 2 if stage > 0 and i == 0 else 1
                blocks.append(Block(channels_in, width << stage, stride))
                channels_in = width << stage
        self.blocks = nn.Sequential(*blocks)
        self.dense = nn.Linear(channels_in, classes)

    def forward(self, images: Tensor) -> Tensor:
        x = functional.relu(self.norm(self.conv(images)))
        x = self.blocks(functional.max_pool2d(x, 3, stride=2, padding=1))
        return self.dense(x.mean((2, 3)))
