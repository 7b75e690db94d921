"""transformers: a small llama in bf16, full fine-tuning, HF checkpointing, an evaluation with generate."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    hidden_size=1024,
    intermediate_size=2816,
    num_hidden_layers=8,
    num_attention_heads=16,
    num_key_value_heads=4,
    vocab_size=32000,
)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)
model.gradient_checkpointing_enable()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for _ in range(3):
    tokens = torch.randint(0, 32000, (4, 1024), device="cuda")
    loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
model.eval()
with torch.no_grad():
    model.generate(tokens[:, :32], max_new_tokens=8, min_new_tokens=8, do_sample=False)
