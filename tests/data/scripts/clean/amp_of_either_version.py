import torch
from torch.utils.data import DataLoader

try:
    from torch.amp import GradScaler, autocast
except ImportError:  # before PyTorch 2.3
    from torch.cuda.amp import GradScaler, autocast


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
    scaler = GradScaler("cuda")
    for x, y in DataLoader(synthetic(20_000), batch_size=512):
        with autocast("cuda", dtype=torch.float16):
            loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
