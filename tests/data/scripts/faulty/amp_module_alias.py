import torch
from torch.cuda import amp
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


def step(model, optimizer, scaler, x, y):
    with amp.autocast(enabled=True):
        loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss.item()


def main():
    model = Net().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = amp.GradScaler(init_scale=2.0**14)
    for x, y in DataLoader(synthetic(20_000), batch_size=512):
        print(step(model, optimizer, scaler, x.cuda(), y.cuda()))


if __name__ == "__main__":
    main()
