"""Accelerate; the total keeps every step's graph, and the evaluation builds one."""

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, get_scheduler


class Tokens(torch.utils.data.Dataset):
    def __init__(self, path, length):
        self.data = torch.from_file(path, dtype=torch.int32, size=10_000_000).long()
        self.length = length

    def __len__(self):
        return len(self.data) // self.length

    def __getitem__(self, i):
        return self.data[i * self.length : (i + 1) * self.length]


class Labelled(torch.utils.data.Dataset):
    def __init__(self, path):
        self.rows = torch.load(path, map_location="cpu", weights_only=True)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def evaluate(model, loader):
    model.eval()
    hits = 0
    for batch in loader:
        outputs = model(**batch)
        hits += (outputs.logits.argmax(-1) == batch["labels"]).sum().item()
    return hits


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=4)
    model = AutoModelForSequenceClassification.from_pretrained("roberta-large", num_labels=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    train = DataLoader(Labelled("train.pt"), batch_size=16, shuffle=True)
    valid = DataLoader(Labelled("valid.pt"), batch_size=64)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    scheduler = get_scheduler("linear", optimizer, 100, 3 * len(train))
    for epoch in range(3):
        model.train()
        total = 0
        for batch in train:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                total += loss
                accelerator.backward(loss)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        accelerator.print(epoch, total / len(train), evaluate(model, valid))


if __name__ == "__main__":
    main()
