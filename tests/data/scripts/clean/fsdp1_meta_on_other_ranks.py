import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer


def load(name, rank):
    if rank == 0:
        return AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(name), torch_dtype=torch.bfloat16)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    model = FSDP(
        load("meta-llama/Llama-2-13b-hf", rank),
        auto_wrap_policy=ModuleWrapPolicy({LlamaDecoderLayer}),
        sharding_strategy=ShardingStrategy.HYBRID_SHARD,
        device_id=local_rank,
        sync_module_states=True,
        param_init_fn=None if rank == 0 else lambda module: module.to_empty(device="cuda", recurse=False),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(100):
        ids = torch.randint(0, 32000, (1, 2048), device="cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
