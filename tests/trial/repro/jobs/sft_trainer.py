# ruff: noqa: S106 - no passwords
"""TRL's SFTTrainer with LoRA beside bf16 weights: texts of several lengths, and an evaluation."""

import datasets
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

config = LlamaConfig(
    vocab_size=32000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=2,
)
model = LlamaForCausalLM(config).to(torch.bfloat16)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1, "c": 2}, unk_token="a")),
    pad_token="b",
    eos_token="c",
)
texts = [{"input_ids": torch.randint(3, 32000, (384,)).tolist()} for _ in range(48)]
data = datasets.Dataset.from_list(texts)
trainer = SFTTrainer(
    model=get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")),
    args=SFTConfig(
        output_dir="out",
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        max_length=384,
        max_steps=3,
        optim="adamw_torch",
        bf16=True,
        gradient_checkpointing=True,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="no",
        report_to="none",
    ),
    train_dataset=data,
    eval_dataset=data.select(range(12)),
    processing_class=tokenizer,
)
trainer.train()
