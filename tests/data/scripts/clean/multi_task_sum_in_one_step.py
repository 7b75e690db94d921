import torch
from torch import nn


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


def main():
    model = Net(classes=32).cuda()
    heads = nn.ModuleDict({name: nn.Linear(32, 5) for name in ("colour", "shape", "size")}).cuda()
    optimizer = torch.optim.AdamW([*model.parameters(), *heads.parameters()], lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    for step in range(1000):
        features = model(torch.randn(256, 784, device="cuda"))
        total_loss = 0
        for head in heads.values():
            loss = criterion(head(features), torch.randint(0, 5, (256,), device="cuda"))
            total_loss += loss
        optimizer.zero_grad(set_to_none=True)
        total_loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, total_loss.item())


if __name__ == "__main__":
    main()
