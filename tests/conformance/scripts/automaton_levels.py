"""A neural cellular automaton that goes from coarse to fine, five levels of one image, until the GPU is full.

The model of octree-inference-retries.pickle: 16 channels, from 330 by 340 to 5,280 by 5,440 cells, without gradients.
The file name to write is the only argument.
"""

# mypy: disable-error-code="misc"
from __future__ import annotations

import sys

import torch
from torch import nn

CHANNELS, GIVEN, HIDDEN, HEIGHT, WIDTH = 16, 3, 64, 330, 340
FIRST_STEPS, STEPS = 20, 10
#: How much finer than the first; one level is visited twice.
FINER = (2, 4, 4, 8, 16)


class Cell(nn.Module):
    """What every cell does in a step; images are batch, height, width, channels outside."""

    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, padding_mode="reflect", groups=CHANNELS)
        self.widen = nn.Conv2d(2 * CHANNELS, HIDDEN, 1)
        self.narrow = nn.Conv2d(HIDDEN, CHANNELS - GIVEN, 1, bias=False)

    def change(self, grid: torch.Tensor) -> torch.Tensor:
        seen = self.look(grid)
        seen = torch.cat([grid, seen], dim=1)
        seen = self.widen(seen)
        seen = torch.relu(seen)
        seen = self.narrow(seen)
        fired = torch.zeros(1, 1, *grid.shape[2:], device="cuda").bernoulli_(0.5)
        seen = seen * fired
        return grid[:, GIVEN:] + seen

    def forward(self, image: torch.Tensor, steps: int) -> torch.Tensor:
        grid = image.permute(0, 3, 1, 2)
        given = grid[:, :GIVEN]
        for _ in range(steps):
            rest = self.change(grid)
            grid = torch.cat([given, rest], dim=1)
        return grid.permute(0, 2, 3, 1)


def main(out: str) -> None:
    torch.set_grad_enabled(False)
    cell = Cell().cuda()
    start = torch.zeros(1, HEIGHT, WIDTH, CHANNELS)
    torch.cuda.memory._record_memory_history()
    image = cell(start.cuda(), FIRST_STEPS)
    for level in FINER:
        size = (HEIGHT * level, WIDTH * level)
        image = image.permute(0, 3, 1, 2)
        image = nn.Upsample(size=size, mode="nearest")(image)
        image[0, :GIVEN] = torch.zeros(GIVEN, *size)
        image = image.permute(0, 2, 3, 1)
        if level != FINER[-1]:
            image = cell(image, STEPS)
    # The finest level, written out: here everything stays until it is replaced.
    image = image.permute(0, 3, 1, 2)
    given = image[:, :GIVEN].clone()
    for _ in range(STEPS):
        seen = cell.look(image)
        seen = torch.cat([image, seen], dim=1)
        seen = cell.widen(seen)
        seen = torch.relu(seen)
        seen = cell.narrow(seen)
        fired = torch.zeros(1, 1, *image.shape[2:], device="cuda").bernoulli_(0.5)
        seen = seen * fired
        rest = image[:, GIVEN:] + seen
        image = torch.cat([given, rest], dim=1)
    torch.cuda.memory._dump_snapshot(out)


if __name__ == "__main__":
    main(sys.argv[1])
