"""generate() switches gradients off by itself."""

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def answer(model, tokenizer, questions):
    model.eval()
    answers = []
    for question in questions:
        ids = tokenizer(question, return_tensors="pt").to(model.device)
        out = model.generate(**ids, max_new_tokens=128, do_sample=False)
        answers.append(tokenizer.decode(out[0], skip_special_tokens=True))
    return answers


def main():
    name = "Qwen/Qwen2.5-0.5B-Instruct"
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16).to("cuda")
    with open("questions.txt") as file:
        questions = [line.strip() for line in file if line.strip()]
    for line in answer(model, tokenizer, questions):
        print(line)


if __name__ == "__main__":
    main()
