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


def main():
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    train_loader = DataLoader(synthetic(50_000), batch_size=256, shuffle=True)
    valid_loader = DataLoader(synthetic(10_000), batch_size=256)
    for epoch in range(10):
        total = torch.zeros((), device="cuda")
        for x, y in train_loader:
            loss = criterion(model(x.cuda()), y.cuda())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
        model.eval()
        with torch.no_grad():
            valid = 0.0
            for x, y in valid_loader:
                valid += criterion(model(x.cuda()), y.cuda())
        model.train()
        print(epoch, total.item() / len(train_loader), valid.item() / len(valid_loader))


if __name__ == "__main__":
    main()
