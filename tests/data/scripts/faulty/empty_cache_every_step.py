import gc

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


def batches(path, size):
    with open(path) as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    for i in range(0, len(lines), size):
        chunk = lines[i : i + size]
        yield [text for text, _ in chunk], torch.tensor([int(label) for _, label in chunk])


def main():
    name = "microsoft/deberta-v3-large"
    tokenizer = AutoTokenizer.from_pretrained(name)
    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-6)
    for epoch in range(3):
        for texts, labels in batches("train.tsv", 16):
            encoded = tokenizer(texts, padding=True, truncation=True, max_length=512, return_tensors="pt").to("cuda")
            loss = model(**encoded, labels=labels.cuda()).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            del encoded, loss
            gc.collect()
            torch.cuda.empty_cache()
        model.save_pretrained(f"out/{epoch}")


if __name__ == "__main__":
    main()
