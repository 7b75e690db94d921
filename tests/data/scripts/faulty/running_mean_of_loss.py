"""Contrastive pre-training on one card."""

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


class Net(torch.nn.Module):
    def __init__(self, hidden=1024, classes=10):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(784, hidden),
            torch.nn.GELU(),
            torch.nn.Linear(hidden, hidden),
            torch.nn.GELU(),
            torch.nn.Linear(hidden, classes),
        )

    def forward(self, x):
        return self.layers(x)


def synthetic(count):
    return torch.utils.data.TensorDataset(torch.randn(count, 784), torch.randint(0, 10, (count,)))


class Meter:
    def __init__(self):
        self.sum = 0.0
        self.count = 0


def main():
    model = Net(classes=128).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(synthetic(100_000), batch_size=1024, shuffle=True, drop_last=True)
    meter = Meter()
    running = 0.0
    for epoch in range(100):
        for x, _ in loader:
            x = x.cuda()
            a = F.normalize(model(x + 0.1 * torch.randn_like(x)), dim=-1)
            b = F.normalize(model(x + 0.1 * torch.randn_like(x)), dim=-1)
            logits = a @ b.T / 0.07
            labels = torch.arange(len(x), device="cuda")
            loss = F.cross_entropy(logits, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            running = 0.99 * running + 0.01 * loss
            meter.count += 1
        print(epoch, float(running), meter.count)


if __name__ == "__main__":
    main()
