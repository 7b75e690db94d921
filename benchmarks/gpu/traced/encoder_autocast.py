"""torch's own transformer encoder under bf16 autocast: SDPA, dropout, layer norm."""

import torch

layer = torch.nn.TransformerEncoderLayer(768, 12, 3072, dropout=0.1, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).cuda()
head = torch.nn.Linear(768, 1000).cuda()
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()])
for _ in range(3):
    x = torch.randn(16, 256, 768, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        loss = head(model(x)).float().logsumexp(-1).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
