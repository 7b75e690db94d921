"""A loop that accelerate prepares, over two ranks, with accumulation and an evaluation."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import MistralConfig, MistralForCausalLM, get_scheduler

accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
config = MistralConfig(
    vocab_size=32000,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=2,
    num_attention_heads=8,
    num_key_value_heads=2,
    use_cache=False,
)
model = MistralForCausalLM(config)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
training = DataLoader(TensorDataset(torch.randint(0, 32000, (24, 384))), batch_size=2)
held_out = DataLoader(TensorDataset(torch.randint(0, 32000, (32, 384))), batch_size=4)
schedule = get_scheduler("linear", optimizer, num_warmup_steps=1, num_training_steps=3)
model, optimizer, training, held_out, schedule = accelerator.prepare(
    model, optimizer, training, held_out, schedule
)
model.train()
for (tokens,) in training:
    with accelerator.accumulate(model):
        outputs = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)
        loss = outputs.loss
        accelerator.backward(loss)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
model.eval()
losses = []
for (tokens,) in held_out:
    with torch.no_grad():
        evaluated = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=tokens)
    losses.append(accelerator.gather_for_metrics(evaluated.loss.repeat(4)))
