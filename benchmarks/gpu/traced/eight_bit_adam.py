"""bitsandbytes: Adam with 8-bit states on a large embedding and linear layers."""

import bitsandbytes
import torch

model = torch.nn.Sequential(
    torch.nn.Embedding(32000, 1024), torch.nn.Linear(1024, 4096), torch.nn.Linear(4096, 1024)
)
model = model.cuda()
optimizer = bitsandbytes.optim.AdamW8bit(model.parameters(), lr=1e-3)
for _ in range(3):
    tokens = torch.randint(0, 32000, (16, 256), device="cuda")
    model(tokens).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
