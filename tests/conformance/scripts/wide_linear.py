"""One linear layer of 10,000 by 50,000, called three times with its graph kept for one call each.

The model of grad-profile.pickle; the file name to write is the only argument.
"""

from __future__ import annotations

import sys

import torch


def main(out: str) -> None:
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    layer = torch.nn.Linear(10_000, 50_000, device="cuda")
    answer = torch.empty(0)
    for _ in range(3):
        batch = torch.randn(5_000, 10_000, device="cuda")
        answer = layer(batch)
    torch.cuda.memory._dump_snapshot(out)
    torch.cuda.memory._record_memory_history(enabled=None)
    assert answer.requires_grad


if __name__ == "__main__":
    main(sys.argv[1])
