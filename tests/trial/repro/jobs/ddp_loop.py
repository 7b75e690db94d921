# ruff: noqa: B007 - an ordinary script
"""DDP over two ranks with accumulation: gradients are reduced in the last micro-batch."""

import contextlib
import os

import torch
from torch.nn.parallel import DistributedDataParallel
from transformers import BertConfig, BertForSequenceClassification

torch.distributed.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
config = BertConfig(
    vocab_size=30522,
    hidden_size=384,
    num_hidden_layers=4,
    num_attention_heads=6,
    intermediate_size=1536,
    num_labels=5,
)
model = DistributedDataParallel(BertForSequenceClassification(config).cuda(), device_ids=[local])
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
for step in range(3):
    optimizer.zero_grad()
    for micro in range(3):
        tokens = torch.randint(0, 30522, (8, 192)).cuda()
        labels = torch.randint(0, 5, (8,)).cuda()
        with contextlib.nullcontext() if micro == 2 else model.no_sync():
            with torch.autocast("cuda", dtype=torch.bfloat16):
                outputs = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=labels)
                loss = outputs.loss / 3
            loss.backward()
    optimizer.step()
torch.distributed.destroy_process_group()
