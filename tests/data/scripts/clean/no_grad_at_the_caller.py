import torch
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


def evaluate(model, loader):
    model.eval()
    hits = 0
    for x, y in loader:
        logits = model(x.cuda())
        hits += (logits.argmax(-1).cpu() == y).sum().item()
    return hits / len(loader.dataset)


def main():
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    valid = DataLoader(synthetic(10_000), batch_size=1024)
    for epoch in range(10):
        model.train()
        for x, y in DataLoader(synthetic(50_000), batch_size=256, shuffle=True):
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = evaluate(model, valid)
        print(epoch, accuracy)


if __name__ == "__main__":
    main()
