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
    accumulate = 8
    running = 0.0
    for i, (x, y) in enumerate(DataLoader(synthetic(50_000), batch_size=64, shuffle=True), 1):
        loss = criterion(model(x.cuda()), y.cuda()) / accumulate
        loss.backward()
        running += float(loss)
        if i % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            print(i, running)
            running = 0.0
    summary = torch.cuda.memory_summary(abbreviated=True)
    with open("memory.txt", "w") as file:
        file.write(summary)


if __name__ == "__main__":
    main()
