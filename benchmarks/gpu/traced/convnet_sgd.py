"""A small residual network: convolutions, batch norm, pooling. cuDNN's workspaces are what a trace cannot know."""

import torch


class Block(torch.nn.Module):
    """Two convolutions with batch norm, and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.two = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norms[0](self.one(x)))
        return torch.relu(x + self.norms[1](self.two(y)))


model = torch.nn.Sequential(
    torch.nn.Conv2d(3, 64, 7, 2, 3),
    torch.nn.MaxPool2d(3, 2, 1),
    *[Block(64) for _ in range(4)],
    torch.nn.AdaptiveAvgPool2d(1),
    torch.nn.Flatten(),
    torch.nn.Linear(64, 100),
).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for _ in range(3):
    images = torch.randn(32, 3, 224, 224, device="cuda")
    loss = torch.nn.functional.cross_entropy(model(images), torch.randint(0, 100, (32,), device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
