"""The job of job.slurm: what `oomph doctor --script` says of it stands in the README."""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM


def evaluate(model, loader):
    model.eval()
    total = 0.0
    for batch in loader:
        total += model(**batch).loss.item()
    model.train()
    return total / len(loader)


def train(loader: DataLoader, held_out: DataLoader) -> None:
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B").cuda()
    model = FSDP(model, sharding_strategy=ShardingStrategy.SHARD_FULL)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    total = 0.0
    for batch in loader:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss
    print(total / len(loader), evaluate(model, held_out))
