"""A small decoder, trained for three steps: by a trace on a card that is not there, and on the CPU."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) * 0.1).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.second(x))))


class Model(nn.Module):
    def __init__(self, width=128, vocabulary=2000):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList([Layer(width) for _ in range(4)])
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(device="cuda", begin=lambda name: None, end=lambda name: None, steps=3):
    begin("load")
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    end("load")
    for _ in range(steps):
        begin("forward")
        tokens = torch.randint(0, 2000, (8, 128), device=device)
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.view(-1, 2000), tokens.view(-1))
        end("forward")
        begin("backward")
        loss.backward()
        end("backward")
        begin("optimizer")
        optimizer.step()
        end("optimizer")
        optimizer.zero_grad()


if __name__ == "__main__":
    train()
