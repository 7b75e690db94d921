"""A decoder of 4 layers, 512 wide, 16 heads, with rotary positions and a gated MLP, every operator written out, fp32.

The model of transformer-small-*.pickle: three forward passes, or three training steps. The rotary tables stay on the
CPU, so each use copies them; the mask is made on the CPU too.
"""

# mypy: disable-error-code="misc"
from __future__ import annotations

import argparse
import math
from collections.abc import Iterable

import torch
from torch import nn

VOCABULARY, LONGEST, WIDTH, LAYERS, HEADS, HIDDEN = 10_000, 256, 512, 4, 16, 1_344
BATCH, ROUNDS = 10, 3


class Table(nn.Module):
    """A weight and nothing else: [rows, columns]."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows, columns, device="cuda"))
        nn.init.trunc_normal_(self.weight)


class Project(Table):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.einsum("bsi,oi->bso", x, self.weight)


class Look(Table):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.weight[tokens]


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH, device="cuda"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = torch.sqrt(torch.mean(x**2, dim=-1, keepdim=True) + 1e-5)
        return x / size * self.weight


def turning_tables(wide: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Sines and cosines on the CPU: [LONGEST, wide / 2]."""
    speed = torch.tensor([VOCABULARY ** (-2 * pair / wide) for pair in range(wide // 2)])
    angle = torch.arange(LONGEST)[:, None] * speed
    return torch.sin(angle), torch.cos(angle)


def turned(x: torch.Tensor, tables: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    places = torch.arange(x.shape[-2])
    sine = tables[0][places].to("cuda")[None, None, :, :, None]
    cosine = tables[1][places].to("cuda")[None, None, :, :, None]
    pairs = x.unflatten(-1, (-1, 2))
    first = cosine * pairs[..., :1] - sine * pairs[..., 1:]
    second = sine * pairs[..., :1] + cosine * pairs[..., 1:]
    both = torch.cat([first, second], dim=-1)
    return both.flatten(-2)


def soft(x: torch.Tensor) -> torch.Tensor:
    """Softmax that takes the exponential twice."""
    largest, _ = torch.max(x, dim=-1, keepdim=True)
    return torch.exp(x - largest) / torch.sum(torch.exp(x - largest), dim=-1, keepdim=True)


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    mask = mask.to("cuda")
    product = torch.einsum("bhqd,bhkd->bhqk", q, k)
    score = product / torch.sqrt(torch.tensor(q.shape[-1], device="cuda"))
    hidden = score.masked_fill_(~mask.bool(), -math.inf)
    weight = soft(hidden)
    return torch.einsum("bhqk,bhkd->bhqd", weight, v)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = turning_tables(WIDTH // HEADS)
        self.q, self.k, self.v, self.out = (Project(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (q, k, v))
        q = turned(q, self.tables)
        k = turned(k, self.tables)
        mask = torch.tril(torch.ones(x.shape[-2], x.shape[-2]))
        result = attend(q, k, v, mask)
        result = result.transpose(1, 2).flatten(-2)
        return self.out(result)


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.down, self.up = Project(HIDDEN, WIDTH), Project(WIDTH, HIDDEN), Project(HIDDEN, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = self.gate(x)
        opened = gate * torch.sigmoid(gate)
        up = self.up(x)
        product = opened * up
        return self.down(product)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.attention, self.gated = Attention(), Gated()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.before(x)
        attended = self.attention(normed)
        middle = attended + x
        normed_again = self.between(middle)
        answer = self.gated(normed_again)
        return answer + middle


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look = Look(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.norm = Norm()
        self.head = Project(VOCABULARY, WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.look(tokens)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return self.head(x)


def loss_of(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Cross entropy through a matrix that is 1 at the label."""
    largest, _ = torch.max(logits, dim=-1, keepdim=True)
    scores = logits - largest - torch.log(torch.sum(torch.exp(logits - largest), dim=-1, keepdim=True))
    chosen = torch.zeros_like(scores)
    chosen.scatter_(-1, labels.unsqueeze(-1), 1)
    return -torch.sum(chosen * scores) / logits.shape[0]


class Adam:
    """Out of place: each step makes new moments and new weights."""

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.first: list[torch.Tensor] = []
        self.second: list[torch.Tensor] = []
        for one in self.parameters:
            self.first.append(torch.zeros_like(one.data))
            self.second.append(torch.zeros_like(one.data))

    def zero_grad(self) -> None:
        for one in self.parameters:
            one.grad = None

    def step(self) -> None:
        for place, one in enumerate(self.parameters):
            assert one.grad is not None
            gradient = one.grad.data
            first = self.first[place]
            new_first = 0.9 * first + 0.1 * gradient
            self.first[place] = new_first
            second = self.second[place]
            new_second = 0.999 * second + 0.001 * gradient**2
            self.second[place] = new_second
            one.data = one.data - 0.001 * (new_first / (torch.sqrt(new_second) + 1e-8))
            one.data = one.data - 0.0 * one.data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--length", type=int, required=True)
    parser.add_argument("--out", required=True)
    options = parser.parse_args()

    torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    model = Decoder()
    if not options.train:
        tokens = torch.randint(0, VOCABULARY, (BATCH, options.length)).to("cuda")
        for _ in range(ROUNDS):
            model(tokens)
    else:
        adam = Adam(model.parameters())
        tokens = torch.randint(0, VOCABULARY, (BATCH, options.length)).to("cuda")
        labels = torch.randint(0, VOCABULARY, (BATCH,)).to("cuda")
        for _ in range(ROUNDS):
            adam.zero_grad()
            logits = model(tokens)
            last = logits[:, -1, :]
            loss = loss_of(last, labels)
            loss.backward()
            adam.step()
    torch.cuda.memory._dump_snapshot(options.out)
    torch.cuda.memory._record_memory_history(enabled=None)


if __name__ == "__main__":
    main()
