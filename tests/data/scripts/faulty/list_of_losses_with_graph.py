import matplotlib.pyplot as plt
import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, vocab, width=512, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocab)

    def forward(self, x):
        out, _ = self.lstm(self.embed(x))
        return self.head(out)


def encode(text):
    table = {char: i for i, char in enumerate(sorted(set(text)))}
    return torch.tensor([table[char] for char in text])


def train(text, steps=5000, batch=64, length=128):
    device = torch.device("cuda:0")
    model = CharModel(vocab=len(set(text))).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    data = encode(text).to(device)
    history = []
    for step in range(steps):
        start = torch.randint(0, len(data) - length - 1, (batch,))
        x = torch.stack([data[s : s + length] for s in start])
        y = torch.stack([data[s + 1 : s + length + 1] for s in start])
        logits = model(x)
        loss = criterion(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        history.append(loss)
    plt.plot([float(each) for each in history])
    plt.savefig("loss.png")


if __name__ == "__main__":
    with open("input.txt") as file:
        train(file.read())
