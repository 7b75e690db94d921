"""A mixture of experts in pure bf16 with Trainer, predictions of the evaluation kept on the GPU."""

import torch
from transformers import MixtralConfig, MixtralForCausalLM, Trainer, TrainingArguments


class Texts(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, place):
        tokens = torch.randint(0, 8192, (256,))
        return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


def accuracy(predictions):
    return {"logits": float(predictions.predictions.shape[-1])}


torch.set_default_dtype(torch.bfloat16)
config = MixtralConfig(
    vocab_size=8192,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    num_local_experts=4,
    num_experts_per_tok=2,
)
trainer = Trainer(
    model=MixtralForCausalLM(config),
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        max_steps=2,
        optim="adamw_torch_fused",
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=Texts(32),
    eval_dataset=Texts(20),
    compute_metrics=accuracy,
)
trainer.train()
