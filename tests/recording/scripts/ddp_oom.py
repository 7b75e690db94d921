"""Four ranks of DDP on the CPU; the card of rank 2 is small, and a batch of it is too long in step 2."""

from __future__ import annotations

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import oomph

RANK = int(os.environ["RANK"])
if RANK == 2:
    os.environ["OOMPH_CPU_CAPACITY"] = "24MiB"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(64, 256)
        self.last = torch.nn.Linear(256, 8)

    def forward(self, features):
        return self.last(self.first(features).relu())


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.AdamW(model.parameters())
    run = oomph.record(model=model, optimizer=optimizer, name="ddp", every=0)
    for step in range(4):
        rows = 20_000 if RANK == 2 and step == 2 else 4 + RANK
        loss = model(torch.randn(rows, 64)).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    run.end()


try:
    main()
except torch.OutOfMemoryError:
    time.sleep(float(sys.argv[1]))  # as a process that takes time to die: the others hang meanwhile
    raise
