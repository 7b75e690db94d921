# ruff: noqa: B007 - an ordinary script
"""A classifier of images in fp16 with a gradient scaler."""

import torch
from transformers import ViTConfig, ViTForImageClassification

config = ViTConfig(
    hidden_size=192, num_hidden_layers=4, num_attention_heads=3, intermediate_size=768, num_labels=1000
)
model = ViTForImageClassification(config).cuda().train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
scaler = torch.amp.GradScaler("cuda")
for step in range(3):
    images = torch.randn(16, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (16,), device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        outputs = model(pixel_values=images, labels=labels)
        loss = outputs.loss
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
