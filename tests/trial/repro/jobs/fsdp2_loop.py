# ruff: noqa: B007 - an ordinary script
"""FSDP2 over two ranks with mixed precision, and checkpoints."""

import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=32000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=8,
    use_cache=False,
)
model = LlamaForCausalLM(config)
model.gradient_checkpointing_enable()
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model.model.layers:
    fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(3):
    tokens = torch.randint(0, 32000, (2, 512), device=f"cuda:{local}")
    optimizer.zero_grad()
    outputs = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)
    loss = outputs.loss
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    for _ in range(3):
        tokens = torch.randint(0, 32000, (4, 512), device=f"cuda:{local}")
        evaluated = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)
dist.destroy_process_group()
