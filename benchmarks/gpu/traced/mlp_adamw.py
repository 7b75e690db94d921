"""A multilayer perceptron in fp32 with AdamW."""

import torch

model = torch.nn.Sequential(
    *[layer for _ in range(6) for layer in (torch.nn.Linear(2048, 2048), torch.nn.GELU())],
    torch.nn.Linear(2048, 10),
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    x = torch.randn(256, 2048, device="cuda")
    y = torch.randint(0, 10, (256,), device="cuda")
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
print(loss.item())
