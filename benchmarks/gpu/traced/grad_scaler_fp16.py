"""fp16 autocast with GradScaler, gradient accumulation and an exponential moving average of the weights."""

import copy

import torch

model = torch.nn.Sequential(
    torch.nn.Embedding(8000, 512), torch.nn.Linear(512, 2048), torch.nn.SiLU(), torch.nn.Linear(2048, 8000)
).cuda()
average = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler("cuda")
for _ in range(3):
    for _ in range(2):
        tokens = torch.randint(0, 8000, (8, 512)).cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            logits = model(tokens)
            loss = torch.nn.functional.cross_entropy(logits.view(-1, 8000), tokens.view(-1))
        scaler.scale(loss / 2).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    with torch.no_grad():
        for ours, theirs in zip(average.parameters(), model.parameters(), strict=True):
            ours.lerp_(theirs, 0.01)
