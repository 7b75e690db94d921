"""A small network whose author keeps every loss, and with it the graph behind it: memory grows in each step."""

import torch

import oomph

model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
optimizer = torch.optim.AdamW(model.parameters())
losses = []
with oomph.record(model=model, optimizer=optimizer, name="small"):
    for _ in range(16):
        loss = torch.nn.functional.cross_entropy(model(torch.randn(256, 1024)), torch.randint(512, (256,)))
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)  # loss.item() keeps no graph
