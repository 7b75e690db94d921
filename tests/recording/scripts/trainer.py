"""A real Trainer of transformers, with accumulation, evaluation and checkpoints."""

from __future__ import annotations

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

from oomph.recording.callbacks.transformers import OomphCallback


class Rows(torch.utils.data.Dataset):
    def __init__(self, count, length):
        self.count, self.length = count, length

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        ids = torch.arange(self.length) % 64
        return {"input_ids": ids, "labels": ids}


def main():
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2
    )
    arguments = TrainingArguments(
        output_dir=sys.argv[1],
        per_device_train_batch_size=2,
        per_device_eval_batch_size=3,
        gradient_accumulation_steps=2,
        max_steps=3,
        eval_strategy="steps",
        eval_steps=2,
        save_steps=3,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=LlamaForCausalLM(config),
        args=arguments,
        train_dataset=Rows(32, 16),
        eval_dataset=Rows(6, 16),
        callbacks=[OomphCallback(every=0)],
    )
    trainer.train()


main()
