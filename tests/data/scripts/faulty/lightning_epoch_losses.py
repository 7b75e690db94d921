import lightning as L
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


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
        self.criterion = nn.CrossEntropyLoss()
        self.losses = []

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = self.criterion(self.net(x), y)
        self.losses.append(loss)
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        self.log("epoch_loss", torch.stack(self.losses).mean())

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", self.criterion(self.net(x), y))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main():
    trainer = L.Trainer(max_epochs=10, accelerator="gpu", devices=4, strategy="ddp", precision="bf16-mixed")
    trainer.fit(Classifier(), DataLoader(synthetic(50_000), batch_size=256), DataLoader(synthetic(5_000), batch_size=256))


if __name__ == "__main__":
    main()
