# ruff: noqa: T201
"""Fine-tunes a language model with TRL's SFTTrainer and LoRA, or QLoRA."""

import argparse

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", default="HuggingFaceTB/SmolLM2-135M")
parser.add_argument("--data", default="timdettmers/openassistant-guanaco")
parser.add_argument("--quantise", choices=["4bit", "8bit"])
parser.add_argument("--layers", type=int, help="only the first layers of the model")
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--length", type=int, default=64)
parser.add_argument("--rank", type=int, default=8)
parser.add_argument("--optimizer", default="adamw_torch")
parser.add_argument("--checkpointing", action="store_true")
args = parser.parse_args()

quantisation = None
if args.quantise == "4bit":
    quantisation = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
elif args.quantise == "8bit":
    quantisation = BitsAndBytesConfig(load_in_8bit=True)
more = {"num_hidden_layers": args.layers} if args.layers else {}
model = AutoModelForCausalLM.from_pretrained(
    args.model,
    dtype=torch.bfloat16,
    device_map={"": 0},
    quantization_config=quantisation,
    **more,
)
tokenizer = AutoTokenizer.from_pretrained(args.model)
if tokenizer.pad_token is None:
    tokenizer.pad_token = tokenizer.eos_token
trainer = SFTTrainer(
    model=model,
    args=SFTConfig(
        output_dir="out",
        max_length=args.length,
        per_device_train_batch_size=args.batch,
        gradient_checkpointing=args.checkpointing,
        optim=args.optimizer,
        bf16=True,
        report_to="none",
        max_steps=10,
    ),
    train_dataset=load_dataset(args.data, split="train").select(range(64)),
    processing_class=tokenizer,
    peft_config=LoraConfig(
        r=args.rank, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
    ),
)
trainer.train()
print("trainable", sum(p.numel() for p in trainer.model.parameters() if p.requires_grad))
