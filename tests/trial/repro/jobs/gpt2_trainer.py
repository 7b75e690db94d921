"""transformers' Trainer on a small GPT-2 with its dropout: bf16, accumulation, DDP, an evaluation each two steps."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Texts(torch.utils.data.Dataset):
    def __init__(self, size):
        self.tokens = torch.randint(0, 50257, (size, 256))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, place):
        tokens = self.tokens[place]
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


trainer = Trainer(
    model=GPT2LMHeadModel(GPT2Config(n_embd=384, n_head=6, n_layer=3)),
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=2,
        gradient_accumulation_steps=2,
        per_device_eval_batch_size=6,
        max_steps=4,
        bf16=True,
        optim="adamw_torch",
        warmup_steps=1,
        eval_strategy="steps",
        eval_steps=2,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=Texts(64),
    eval_dataset=Texts(48),
)
trainer.train()
