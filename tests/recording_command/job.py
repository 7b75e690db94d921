"""A training script for tests: DDP over gloo on the CPU, told by a word what is to go wrong on rank 1."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import oomph


def main() -> None:
    """Six steps; in the fifth something happens."""
    what = sys.argv[1]
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Linear(256, 64)))
    optimizer = torch.optim.AdamW(model.parameters())
    with oomph.record(model=model, optimizer=optimizer):
        for step in range(6):
            rows = 200_000 if (what, step, rank) == ("oom", 4, 1) else 16
            loss = model(torch.randn(rows, 64)).square().mean()
            if (what, step, rank) == ("kill", 4, 1):
                os.kill(os.getpid(), 9)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0:
                sys.stdout.write(f"step {step} loss {loss.item():.4f}\n")
                sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
