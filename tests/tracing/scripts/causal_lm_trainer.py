# ruff: noqa: T201
"""Fine-tunes a causal language model with transformers' Trainer."""

import argparse

from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    LlamaConfig,
    Trainer,
    TrainingArguments,
)

parser = argparse.ArgumentParser()
parser.add_argument("--model", default=None, help="a name on the hub; a tiny model otherwise")
parser.add_argument("--batch", type=int, default=2)
parser.add_argument("--length", type=int, default=32)
parser.add_argument("--accumulation", type=int, default=1)
parser.add_argument("--checkpointing", action="store_true")
parser.add_argument("--evaluate", action="store_true")
args = parser.parse_args()

tokenizer = AutoTokenizer.from_pretrained(args.model or "gpt2")
tokenizer.pad_token = tokenizer.eos_token
if args.model:
    model = AutoModelForCausalLM.from_pretrained(args.model)
else:
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    assert isinstance(config, type(AutoConfig.for_model("llama")))
    model = AutoModelForCausalLM.from_config(config)

texts = Dataset.from_dict({"text": ["A sentence that is long enough to be cut. " * 200] * 64})


def tokenize(rows):
    return tokenizer(rows["text"], truncation=True, max_length=args.length)


texts = texts.map(tokenize, batched=True, remove_columns=["text"])
trainer = Trainer(
    model=model,
    args=TrainingArguments(
        output_dir="out",
        per_device_train_batch_size=args.batch,
        gradient_accumulation_steps=args.accumulation,
        gradient_checkpointing=args.checkpointing,
        bf16=True,
        report_to="none",
        num_train_epochs=1,
        eval_strategy="epoch" if args.evaluate else "no",
    ),
    train_dataset=texts,
    eval_dataset=texts.select(range(8)),
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
)
result = trainer.train()
print("steps", trainer.state.global_step, "loss", result.training_loss)
if args.evaluate:
    print(trainer.evaluate())
trainer.save_model("out")
