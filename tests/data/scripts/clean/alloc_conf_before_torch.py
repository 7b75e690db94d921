import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
os.environ.setdefault("NCCL_DEBUG", "WARN")

import torch  # noqa: E402
from diffusers import UNet2DModel  # noqa: E402


def main():
    model = UNet2DModel(sample_size=128).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(1000):
        clean = torch.randn(8, 3, 128, 128, device="cuda")
        noise = torch.randn_like(clean)
        t = torch.randint(0, 1000, (8,), device="cuda")
        loss = torch.nn.functional.mse_loss(model(clean + noise, t).sample, noise)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 100 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
