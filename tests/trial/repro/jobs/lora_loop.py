# ruff: noqa: B007 - an ordinary script
"""LoRA beside bf16 weights, with checkpoints."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Qwen2Config

config = Qwen2Config(
    vocab_size=32000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=2,
    tie_word_embeddings=True,
)
model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
model.config.use_cache = False
model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
model = get_peft_model(
    model,
    LoraConfig(
        r=16,
        lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
        task_type="CAUSAL_LM",
    ),
)
model.enable_input_require_grads()
model.cuda()
model.train()
optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-4)
for step in range(3):
    tokens = torch.randint(0, 32000, (4, 512)).cuda()
    optimizer.zero_grad()
    outputs = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)
    loss = outputs.loss
    loss.backward()
    optimizer.step()
