import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    config = GPT2Config(n_layer=48, n_embd=1600, n_head=25)
    model = FSDP(
        GPT2LMHeadModel(config),
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        device_id=local_rank,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    for step in range(100):
        ids = torch.randint(0, config.vocab_size, (4, 1024), device="cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 10 == 0 and local_rank == 0:
            print(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
