"""A small trainer: the validation builds graphs, and the epoch's loss keeps them."""

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


class Trainer:
    def __init__(self, model, train, valid):
        self.model = model.cuda()
        self.train_loader = train
        self.valid_loader = valid
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.epoch_loss = 0.0

    def fit(self, epochs):
        for epoch in range(epochs):
            self.epoch_loss = 0.0
            self.model.train()
            for x, y in self.train_loader:
                loss = torch.nn.functional.cross_entropy(self.model(x.cuda()), y.cuda())
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                self.epoch_loss += loss
            print(epoch, float(self.epoch_loss), self.validate())

    def validate(self):
        self.model.eval()
        hits = 0
        for x, y in self.valid_loader:
            logits = self.model(x.cuda())
            hits += (logits.argmax(-1).cpu() == y).sum().item()
        return hits


if __name__ == "__main__":
    Trainer(
        Net(),
        DataLoader(synthetic(50_000), batch_size=256, shuffle=True),
        DataLoader(synthetic(10_000), batch_size=1024),
    ).fit(10)
