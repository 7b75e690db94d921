# ruff: noqa: T201
"""Trains a Vision Transformer on images with transformers' Trainer."""

import argparse

import torch
from transformers import (
    AutoImageProcessor,
    AutoModelForImageClassification,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
)

parser = argparse.ArgumentParser()
parser.add_argument("--model", help="a name on the hub; a tiny model otherwise")
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--fp16", action="store_true")
args = parser.parse_args()

if args.model:
    processor = AutoImageProcessor.from_pretrained(args.model)
    side = processor.size["height"]
    model = AutoModelForImageClassification.from_pretrained(
        args.model, num_labels=10, ignore_mismatched_sizes=True
    )
else:
    side = 32
    model = ViTForImageClassification(
        ViTConfig(
            hidden_size=48,
            intermediate_size=96,
            num_hidden_layers=2,
            num_attention_heads=3,
            image_size=side,
            patch_size=8,
            num_labels=10,
        )
    )


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return {"pixel_values": torch.randn(3, side, side), "labels": index % 10}


def accuracy(predictions):
    return {"accuracy": float((predictions.predictions.argmax(-1) == predictions.label_ids).mean())}


trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=args.batch,
        per_device_eval_batch_size=args.batch,
        fp16=args.fp16,
        report_to="none",
        max_steps=20,
        dataloader_num_workers=0,
        eval_strategy="steps",
        eval_steps=10,
    ),
    train_dataset=Images(),
    eval_dataset=Images(),
    compute_metrics=accuracy,
)
trainer.train()
print("done")
