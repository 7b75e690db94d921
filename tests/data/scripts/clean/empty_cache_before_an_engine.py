"""Training and a vLLM engine on the same card take turns."""

import gc

import torch
from transformers import AutoModelForCausalLM
from vllm import LLM, SamplingParams


def train(path, steps):
    model = AutoModelForCausalLM.from_pretrained(path, torch_dtype=torch.bfloat16).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    for _ in range(steps):
        ids = torch.randint(0, 32000, (2, 1024), device="cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    model.save_pretrained("policy")


def sample(prompts):
    engine = LLM("policy", gpu_memory_utilization=0.5)
    return [each.outputs[0].text for each in engine.generate(prompts, SamplingParams(max_tokens=256))]


def main():
    train("Qwen/Qwen2.5-1.5B", 200)
    gc.collect()
    # the engine is another user of the card: it needs what PyTorch still caches
    torch.cuda.empty_cache()
    print(sample(["What is 6 * 7?"]))


if __name__ == "__main__":
    main()
