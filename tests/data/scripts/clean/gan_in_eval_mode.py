"""eval() for the discriminator's batch norm while the generator still trains through it."""

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
    generator = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 784)).cuda()
    discriminator = Net(hidden=256, classes=1).cuda()
    for parameter in discriminator.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    discriminator.eval()
    for step in range(1000):
        fake = generator(torch.randn(128, 64, device="cuda"))
        loss = nn.functional.softplus(-discriminator(fake)).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(step, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
