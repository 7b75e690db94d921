"""One rank of `test_ranks.py`: trains with DDP and with FSDP2, and writes what the device counted."""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from oomph.probe.cpu import CpuDevice

WIDTH, LAYERS, BATCH = 256, 4, 8


def mlp():
    return torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)])


class Watched:
    """Bytes above what was there at the start, by name."""

    def __init__(self):
        gc.collect()
        self.device = CpuDevice()
        self.start = self.device.read().allocated_bytes
        self.seen = {}

    def begin(self):
        self.device.begin()

    def note(self, name):
        now = self.device.read()
        self.seen[name] = [now.allocated_bytes - self.start, now.peak_allocated_bytes - self.start]


def steps(watched, model, trained):
    x = torch.randn(BATCH, WIDTH)
    watched.begin()
    loss = trained(x).sum()
    watched.note("forward")
    watched.begin()
    loss.backward()
    del loss
    watched.note("backward")


def main(folder):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    found: dict[str, Any] = {}
    watched = Watched()
    model = mlp()
    watched.note("made")
    ddp = DistributedDataParallel(model)
    watched.note("wrapped")
    steps(watched, model, ddp)
    found["ddp"] = watched.seen
    watched.device.close()
    del ddp, model
    gc.collect()

    watched = Watched()
    model = mlp()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    gc.collect()
    watched.note("sharded")
    steps(watched, model, model)
    found["fsdp"] = watched.seen
    watched.device.close()

    if rank == 1:
        device = CpuDevice(watched.device.read().reserved_bytes + (8 << 20))
        try:
            torch.empty(64 << 20, dtype=torch.uint8)
        except torch.OutOfMemoryError as error:
            found["failed"] = str(error)
        found["ooms"] = device.read().ooms
        device.close()
    dist.barrier()
    dist.destroy_process_group()
    Path(folder, f"{rank}.json").write_text(json.dumps(found))


main(sys.argv[1])
