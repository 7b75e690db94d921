"""transformers: Trainer on a small GPT-2, bf16 autocast."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

model = GPT2LMHeadModel(GPT2Config(n_layer=6, n_embd=512, n_head=8))
data = [{"input_ids": torch.randint(0, 50257, (256,))} for _ in range(64)]
data = [{**one, "labels": one["input_ids"]} for one in data]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=8,
        max_steps=4,
        bf16=True,
        report_to=[],
        save_strategy="no",
        logging_steps=2,
    )
    Trainer(model=model, args=arguments, train_dataset=data).train()
