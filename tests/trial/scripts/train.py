"""A job whose bytes can be counted: each tensor of a batch has batch x seq KiB.

Training and evaluation hold two of them at the same time, the batch and the result. Tensors of 10 MiB and more have a
segment of their own size each (rounded up to 2 MiB), so that a card holds a setting just when

    2 x batch x seq KiB + 2 MiB (a segment for all small tensors) <= capacity

A weight of --weight MiB has a gradient of as much from the first backward on; adamw keeps two more of it and momentum
one. --keep MiB stay behind after each step.
"""

from __future__ import annotations

import argparse
import os

import torch

OPTIMIZERS = {
    "adamw": torch.optim.AdamW,
    "momentum": lambda parameters: torch.optim.SGD(parameters, momentum=0.9),
    "sgd": torch.optim.SGD,
}


def options():
    parser = argparse.ArgumentParser()
    for name in ("weight", "keep", "eval-batch"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=10_240)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--opt", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--ranks", action="store_true")
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


class Net(torch.nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(1))
        self.weight = torch.nn.Parameter(torch.zeros(weight << 8, 1 << 10)) if weight else None

    def forward(self, batch):
        result = batch * self.scale
        if self.weight is not None:
            result = result.view(-1)[:1] + self.weight.sum()
        return result


def train(model, optimizer, batch, seq):
    device = next(model.parameters()).device
    model(torch.empty(batch, seq << 8, device=device)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def evaluate(model, batch, seq):
    model.eval()
    with torch.no_grad():
        model(torch.empty(batch, seq << 8))
    model.train()


def main():
    given = options()
    model = Net(given.weight).to(given.device)
    if given.ranks:
        torch.distributed.init_process_group("gloo")
        model = torch.nn.parallel.DistributedDataParallel(model)
        if os.environ["RANK"] != "3":
            given.batch = 1
    optimizer = OPTIMIZERS[given.opt](model.parameters())
    kept = []
    for step in range(given.steps):
        train(model, optimizer, given.batch, given.seq)
        if given.keep:
            kept.append(torch.empty(given.keep << 20, dtype=torch.uint8))
        if given.eval_batch and step % 3 == 2:
            evaluate(model, given.eval_batch, given.seq)


if __name__ == "__main__":
    main()
