import torch
from torch import nn
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


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    correct = 0
    seen = 0
    for x, y in loader:
        logits = model(x.to(device))
        correct += (logits.argmax(-1) == y.to(device)).sum().item()
        seen += len(y)
    model.train()
    return correct / seen


def main():
    device = torch.device("cuda")
    model = Net().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    criterion = nn.CrossEntropyLoss()
    train_loader = DataLoader(synthetic(50_000), batch_size=256, shuffle=True)
    valid_loader = DataLoader(synthetic(10_000), batch_size=1024)
    for epoch in range(10):
        total = 0.0
        for x, y in train_loader:
            loss = criterion(model(x.to(device)), y.to(device))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, total / len(train_loader), evaluate(model, valid_loader, device))


if __name__ == "__main__":
    main()
