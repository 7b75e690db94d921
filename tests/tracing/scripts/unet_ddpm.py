# ruff: noqa: T201
"""A training step of a diffusion model's UNet with an exponential moving average of its weights."""

import argparse

import torch
from accelerate import Accelerator
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from diffusers.training_utils import EMAModel

parser = argparse.ArgumentParser()
parser.add_argument("--model", help="a folder or a name on the hub; a tiny model otherwise")
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--precision", default="fp16")
parser.add_argument("--checkpointing", action="store_true")
args = parser.parse_args()

accelerator = Accelerator(mixed_precision=args.precision)
if args.model:
    unet = UNet2DConditionModel.from_pretrained(args.model, subfolder="unet")
    autoencoder = AutoencoderKL.from_pretrained(args.model, subfolder="vae")
    schedule = DDPMScheduler.from_pretrained(args.model, subfolder="scheduler")
    side = 512
else:
    unet = UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(32, 64),
        layers_per_block=1,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=32,
        attention_head_dim=8,
    )
    autoencoder = AutoencoderKL(block_out_channels=(32,), norm_num_groups=8, latent_channels=4)
    schedule = DDPMScheduler()
    side = 8
autoencoder.requires_grad_(False)
if args.checkpointing:
    unet.enable_gradient_checkpointing()
ema = EMAModel(unet.parameters(), model_cls=UNet2DConditionModel, model_config=unet.config)
ema.to(accelerator.device)
optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5)
images = [torch.randn(3, side, side) for _ in range(8)]
loader = torch.utils.data.DataLoader(images, batch_size=args.batch)
unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)
autoencoder.to(accelerator.device, dtype=torch.float16 if args.precision == "fp16" else torch.float32)
for batch in loader:
    with accelerator.accumulate(unet):
        latents = autoencoder.encode(batch.to(autoencoder.dtype)).latent_dist.sample()
        latents = latents * autoencoder.config.scaling_factor
        noise = torch.randn_like(latents)
        steps = torch.randint(
            0, schedule.config.num_train_timesteps, (latents.shape[0],), device=latents.device
        )
        noisy = schedule.add_noise(latents, noise, steps.long())
        text = torch.randn(
            latents.shape[0],
            77,
            accelerator.unwrap_model(unet).config.cross_attention_dim,
            device=latents.device,
        )
        prediction = unet(noisy, steps, text, return_dict=False)[0]
        loss = torch.nn.functional.mse_loss(prediction.float(), noise.float(), reduction="mean")
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        ema.step(unet.parameters())
    print("loss", loss.detach().item())
