# ruff: noqa: T201 - an ordinary script
"""A masked language model in fp32 with SGD and momentum."""

import torch
from transformers import BertConfig, BertForMaskedLM

config = BertConfig(hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=1024)
model = BertForMaskedLM(config)
model.cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(3):
    tokens = torch.randint(5, config.vocab_size, (8, 128))
    labels = tokens.clone()
    labels[torch.rand(labels.shape) > 0.15] = -100
    batch = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}
    batch = {name: each.cuda() for name, each in batch.items()}
    optimizer.zero_grad(set_to_none=True)
    outputs = model(**batch)
    loss = outputs.loss
    loss.backward()
    optimizer.step()
    print(step, loss.item())
