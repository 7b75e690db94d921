"""transformers and peft: LoRA on a small Qwen2 in bf16."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

config = Qwen2Config(
    hidden_size=896,
    intermediate_size=4864,
    num_hidden_layers=12,
    num_attention_heads=14,
    num_key_value_heads=2,
    vocab_size=151936,
)
model = Qwen2ForCausalLM(config).to(torch.bfloat16).cuda()
model = get_peft_model(model, LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules="all-linear"))
optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=1e-4)
for _ in range(3):
    tokens = torch.randint(0, 151936, (2, 1024), device="cuda")
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
