"""diffusers: a training step of a small conditional UNet."""

import torch
from diffusers import DDPMScheduler, UNet2DConditionModel

model = UNet2DConditionModel(
    sample_size=32,
    block_out_channels=(128, 256, 256),
    down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
    cross_attention_dim=512,
).cuda()
scheduler = DDPMScheduler()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for _ in range(3):
    latents = torch.randn(4, 4, 32, 32, device="cuda")
    noise = torch.randn_like(latents)
    steps = torch.randint(0, 1000, (4,), device="cuda")
    context = torch.randn(4, 77, 512, device="cuda")
    predicted = model(scheduler.add_noise(latents, noise, steps), steps, context).sample
    torch.nn.functional.mse_loss(predicted, noise).backward()
    optimizer.step()
    optimizer.zero_grad()
