# ruff: noqa: T201 - an ordinary script
"""A loop of one's own: fp32 weights under bf16 autocast, fused AdamW, an evaluation after some steps."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=32000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=2,
    use_cache=False,
)
model = LlamaForCausalLM(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 10))
training = DataLoader(TensorDataset(torch.randint(0, 32000, (12, 384))), batch_size=4)
held_out = DataLoader(TensorDataset(torch.randint(0, 32000, (16, 384))), batch_size=8)

model.train()
for (tokens,) in training:
    tokens = tokens.to("cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        outputs = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)
        loss = outputs.loss
    loss.backward()
    optimizer.step()
    schedule.step()
    print(f"loss {loss.item():.3f}")

model.eval()
losses = []
with torch.no_grad():
    for (tokens,) in held_out:
        tokens = tokens.to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            evaluated = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)
        losses.append(evaluated.loss.item())
print(sum(losses) / len(losses))
