import os

import torch
from diffusers import UNet2DModel

model = UNet2DModel(sample_size=256, layers_per_block=2, block_out_channels=(128, 256, 512, 512)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

# avoid fragmentation
os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"


def train(steps):
    model.train()
    for step in range(steps):
        clean = torch.randn(8, 3, 256, 256, device="cuda")
        noise = torch.randn_like(clean)
        t = torch.randint(0, 1000, (8,), device="cuda")
        noisy = clean + noise * (t.view(-1, 1, 1, 1) / 1000)
        predicted = model(noisy, t).sample
        loss = torch.nn.functional.mse_loss(predicted, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    train(10_000)
    torch.save(model.state_dict(), "unet.pt")
