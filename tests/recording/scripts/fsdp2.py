"""Ranks of FSDP2 with accumulation, an evaluation (said to be far larger than it is) and a save."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import oomph


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [torch.nn.Linear(128, 128) for _ in range(2)]
    model = torch.nn.Sequential(*layers)
    for layer in layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    with oomph.record(model=model, optimizer=optimizer, every=0, evaluation=200_000) as run:
        for _ in range(4):
            for _ in range(2):
                model(torch.randn(4, 128)).pow(2).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        assert run.forecast is not None
        run.forecast.look()  # as the recorder's thread does every second
        with torch.no_grad():
            model(torch.randn(2, 128))
        state = {name: value.to_local() for name, value in model.state_dict().items()}
        torch.save(state, os.path.join(sys.argv[1], f"state-{dist.get_rank()}.pt"))
    assert run.directory is not None
    dist.barrier()
    dist.destroy_process_group()


main()
