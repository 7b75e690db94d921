import functools
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
from transformers import AutoModelForCausalLM, AutoTokenizer


def get_model(name, device):
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    model.gradient_checkpointing_enable()
    model.to(device)
    policy = functools.partial(size_based_auto_wrap_policy, min_num_params=100_000_000)
    return FSDP(model, auto_wrap_policy=policy, use_orig_params=True)


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    name = "mistralai/Mistral-7B-v0.1"
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = get_model(name, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for step in range(100):
        batch = tokenizer(["a sentence"] * 4, return_tensors="pt").to(device)
        loss = model(**batch, labels=batch["input_ids"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if local_rank == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
