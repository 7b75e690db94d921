import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification


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


def main():
    accelerator = Accelerator(mixed_precision="fp16")
    model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    train = DataLoader(Labelled("train.pt"), batch_size=32, shuffle=True)
    valid = DataLoader(Labelled("valid.pt"), batch_size=64)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)
    for _ in range(3):
        model.train()
        total = 0.0
        for batch in train:
            loss = model(**batch).loss
            total += loss.detach().float()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        hits = 0
        for batch in valid:
            with torch.no_grad():
                outputs = model(**batch)
            predictions, references = accelerator.gather_for_metrics((outputs.logits.argmax(-1), batch["labels"]))
            hits += (predictions == references).sum().item()
        accelerator.print(total.item(), hits)


if __name__ == "__main__":
    main()
