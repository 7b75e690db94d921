"""Trainer under FSDP1 (as accelerate launch asks for it) over two ranks."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

config = LlamaConfig(
    vocab_size=32000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=2,
)


class Texts(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, place):
        tokens = torch.randint(0, 32000, (512,))
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


trainer = Trainer(
    model=LlamaForCausalLM(config),
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=2,
        max_steps=3,
        bf16=True,
        optim="adamw_torch",
        fsdp="full_shard auto_wrap",
        fsdp_config={"version": 1, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]},
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    ),
    train_dataset=Texts(),
)
trainer.train()
