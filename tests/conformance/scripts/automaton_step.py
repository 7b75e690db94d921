"""One step of a neural cellular automaton on a grid of 320 by 320 with 16 channels, without gradients.

The model of unet-single-step.pickle; the file name to write is the only argument.
"""

from __future__ import annotations

import sys

import torch
from torch import nn

CHANNELS, GIVEN, HIDDEN, SIZE = 16, 3, 64, 320


def main(out: str) -> None:
    torch.set_grad_enabled(False)
    look = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, padding_mode="reflect", groups=CHANNELS).cuda()
    widen = nn.Conv2d(2 * CHANNELS, HIDDEN, 1).cuda()
    narrow = nn.Conv2d(HIDDEN, CHANNELS - GIVEN, 1, bias=False).cuda()

    torch.cuda.memory._record_memory_history()
    grid = torch.zeros(1, CHANNELS, SIZE, SIZE, device="cuda")
    image = grid[:, :GIVEN].clone()
    change = look(grid)
    change = torch.cat([grid, change], dim=1)
    change = widen(change)
    change = torch.relu(change)
    change = narrow(change)
    fired = torch.zeros(1, 1, SIZE, SIZE, device="cuda").bernoulli_(0.5)
    change = change * fired
    rest = grid[:, GIVEN:] + change
    grid = torch.cat([image, rest], dim=1)
    torch.cuda.memory._dump_snapshot(out)


if __name__ == "__main__":
    main(sys.argv[1])
