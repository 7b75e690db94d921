# ruff: noqa: T201, N812
"""Trains a small network with Lightning: precision, validation, accumulation and clipping."""

import argparse

import lightning as L
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--width", type=int, default=64)
parser.add_argument("--depth", type=int, default=2)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--precision", default="bf16-mixed")
parser.add_argument("--accelerator", default="auto")
args = parser.parse_args()


class Module(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()
        layers = []
        for _ in range(args.depth):
            layers += [torch.nn.Linear(args.width, args.width), torch.nn.GELU()]
        self.network = torch.nn.Sequential(*layers, torch.nn.Linear(args.width, 10))

    def training_step(self, batch, index):
        inputs, labels = batch
        loss = torch.nn.functional.cross_entropy(self.network(inputs), labels)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        inputs, labels = batch
        self.log("val_loss", torch.nn.functional.cross_entropy(self.network(inputs), labels))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)]


data = torch.utils.data.TensorDataset(torch.randn(256, args.width), torch.randint(0, 10, (256,)))
trainer = L.Trainer(
    accelerator=args.accelerator,
    devices=1,
    precision=args.precision,
    max_epochs=2,
    gradient_clip_val=1.0,
    accumulate_grad_batches=2,
    val_check_interval=0.5,
)
trainer.fit(
    Module(),
    torch.utils.data.DataLoader(data, batch_size=args.batch),
    torch.utils.data.DataLoader(data, batch_size=args.batch),
)
print("steps", trainer.global_step)
