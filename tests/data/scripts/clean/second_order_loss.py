"""MAML on one card: the inner losses need their graph until the outer step, and lose it there."""

import torch
from torch import nn
from torch.func import functional_call


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


def inner(model, params, x, y, rate):
    loss = nn.functional.cross_entropy(functional_call(model, params, (x,)), y)
    grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
    return {name: value - rate * grad for (name, value), grad in zip(params.items(), grads)}


def main():
    model = Net(hidden=64).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(1000):
        meta_loss = 0
        for _ in range(4):
            x, y = torch.randn(10, 784).cuda(), torch.randint(0, 10, (10,)).cuda()
            params = inner(model, dict(model.named_parameters()), x, y, 0.01)
            meta_loss = meta_loss + nn.functional.cross_entropy(functional_call(model, params, (x,)), y)
        optimizer.zero_grad(set_to_none=True)
        meta_loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
