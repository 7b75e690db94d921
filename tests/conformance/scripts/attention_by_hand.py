"""Attention written out, forward and backward, from an empty device: 8 sequences of 4096, 16 wide, fp32.

The model of tiny-from-empty.pickle; the file name to write is the only argument.
"""

from __future__ import annotations

import sys

import torch

BATCH, LENGTH, WIDTH = 8, 4096, 16


def softmax(score: torch.Tensor) -> torch.Tensor:
    """In four steps, each of which keeps a matrix of LENGTH by LENGTH."""
    largest = score.max(dim=-1, keepdim=True).values
    above = torch.exp(score - largest)
    below = torch.sum(above, dim=-1, keepdim=True)
    return above / below


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Products, softmax, and products again."""
    score = torch.einsum("bqd,bkd->bqk", query, key)
    score = score / WIDTH**0.5
    weight = softmax(score)
    return torch.einsum("bqk,bkd->bqd", weight, value)


def main(out: str) -> None:
    torch.cuda.memory._record_memory_history(max_entries=100_000)
    query, key, value = (
        torch.randn(BATCH, LENGTH, WIDTH, device="cuda", requires_grad=True) for _ in range(3)
    )
    result = attention(query, key, value)
    loss = result.sum()
    loss.backward()
    torch.cuda.memory._dump_snapshot(out)
    torch.cuda.memory._record_memory_history(enabled=None)


if __name__ == "__main__":
    main(sys.argv[1])
