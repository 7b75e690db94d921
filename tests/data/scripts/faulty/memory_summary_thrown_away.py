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
    model = Net(hidden=8192).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    criterion = nn.CrossEntropyLoss()
    torch.cuda.reset_peak_memory_stats()
    for step, (x, y) in enumerate(DataLoader(synthetic(10_000), batch_size=256)):
        loss = criterion(model(x.cuda()), y.cuda())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step == 10:
            torch.cuda.memory_summary(device=None, abbreviated=False)
            break
    print("done")


if __name__ == "__main__":
    main()
